from __future__ import annotations

import gc

import pytest

from jobrun.core.interpreter import collect_as_usual, collect_seldom, collector_paused


@pytest.fixture
def _nothing_frozen():
    gc.unfreeze()
    yield
    # What these tests have loaded, as before them.
    gc.freeze()


def _generation(value: object) -> int:
    return next(
        number
        for number in range(3)
        if any(tracked is value for tracked in gc.get_objects(generation=number))
    )


@pytest.mark.usefixtures("_nothing_frozen")
def test_what_is_made_while_the_collector_is_paused_is_old_afterwards():
    with collector_paused():
        assert not gc.isenabled()
        objects = [[] for _ in range(60_000)]

    assert gc.isenabled()
    assert _generation(objects) == 2


def test_what_was_frozen_stays_frozen():
    frozen: list[object] = []
    gc.freeze()

    with collector_paused():
        objects = [[] for _ in range(60_000)]

    assert objects
    # Not a count of all: another thread may release what is frozen.
    assert not any(tracked is frozen for tracked in gc.get_objects())


def test_a_collector_that_was_off_stays_off_after_an_error_too():
    gc.disable()
    try:
        with pytest.raises(KeyError), collector_paused():
            raise KeyError
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_starts_a_command_gives_back_the_thresholds():
    before = gc.get_threshold()

    collect_seldom()
    assert gc.get_threshold() != before
    collect_as_usual()

    assert gc.get_threshold() == before
