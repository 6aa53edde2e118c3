"""One piece of work beside its owner: waited for, given up, or past the point where it can be."""

from __future__ import annotations

import threading

import pytest

from jobrun.runner.saving.background_thread import AbandonedError, BackgroundThread, Permit


def late():
    return True


def in_time():
    return False


@pytest.fixture
def background():
    before = set(threading.enumerate())
    background_thread = BackgroundThread("test")
    yield background_thread
    background_thread.close()
    background_thread.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(100)


def test_work_is_done_in_one_other_thread(background):
    seen = []
    for number in range(3):
        background.start(lambda permit, number=number: seen.append((number, threading.get_ident())))
        assert background.wait(in_time)

    assert [number for number, _ in seen] == [0, 1, 2]
    assert len({thread for _, thread in seen} - {threading.get_ident()}) == 1


def test_it_is_busy_until_its_work_is_over(background):
    go_on = threading.Event()
    assert not background.is_busy
    background.start(lambda permit: go_on.wait(100))
    assert background.is_busy

    go_on.set()
    assert background.wait(in_time)
    assert not background.is_busy


def test_without_work_there_is_nothing_to_wait_for(background):
    assert background.wait(late)


def test_abandoned_work_is_notified_and_has_no_effect(background):
    go_on, over, effects = threading.Event(), threading.Event(), []

    def work(permit):
        go_on.wait(100)
        try:
            permit.enter()
            effects.append("effect")
        except AbandonedError:
            effects.append("given up")
        over.set()

    background.start(work)
    assert not background.wait(late)
    assert not background.is_busy
    go_on.set()
    over.wait(100)

    assert effects == ["given up"]


def test_work_that_has_begun_to_take_effect_is_waited_for(background):
    entered, effects = threading.Event(), []

    def work(permit):
        permit.enter()
        entered.set()
        threading.Event().wait(0.1)
        effects.append("effect")

    background.start(work)
    entered.wait(100)

    assert background.wait(late)
    assert effects == ["effect"]


def test_a_permit_is_given_up_or_entered_never_both():
    entered, given_up = Permit(), Permit()
    entered.enter()

    assert not entered.give_up()
    assert given_up.give_up()
    with pytest.raises(AbandonedError):
        given_up.enter()


def test_work_whose_thread_cannot_be_started_is_not_waited_for(background, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            background.start(lambda permit: None)
    assert not background.is_busy

    done = threading.Event()
    background.start(lambda permit: done.set())
    assert background.wait(in_time)
    assert done.is_set()
