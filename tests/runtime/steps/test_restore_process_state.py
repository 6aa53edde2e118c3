"""What callables change of the whole process is put back, and told."""

from __future__ import annotations

import locale
import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from jobrun.runtime.steps.restore_process_state import ProcessState

DEAF = (signal.SIGTERM, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def _as_before():
    mask, text = os.umask(0o022), locale.setlocale(locale.LC_ALL)
    yield
    os.umask(mask)
    locale.setlocale(locale.LC_ALL, text)


@pytest.mark.parametrize(
    ("change", "find", "expected"),
    [
        (lambda: os.umask(0o777), lambda: os.umask(0o022), "the mask of new files"),
        (lambda: os.chdir("/"), os.getcwd, "the working directory"),
        (lambda: setattr(sys, "stdout", None), lambda: sys.stdout, "the standard streams"),
        (lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
         lambda: locale.setlocale(locale.LC_ALL), "the locale"),
        (lambda: signal.signal(*DEAF), lambda: signal.getsignal(signal.SIGTERM),
         "the handlers of signals"),
    ],
)  # fmt: skip
def test_row_73_process_state_that_a_task_changes_is_restored_and_reported_once(
    change, find, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    locale.setlocale(locale.LC_ALL, "C")
    before = find()
    events = []
    surroundings = ProcessState(events.append)

    for _ in range(2):
        with surroundings.preserve():
            change()
        assert find() == before

    (noted,) = events
    assert expected in noted.text
    assert noted.level == "warning"


def test_a_task_that_changes_nothing_gets_no_warning():
    events = []
    with ProcessState(events.append).preserve():
        pass
    assert events == []


def test_process_state_is_restored_after_a_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fails():
        with ProcessState(lambda _: None).preserve():
            os.chdir("/")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert Path.cwd() == tmp_path


def test_a_directory_that_is_gone_is_left(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    surroundings = ProcessState(lambda _: None)
    with surroundings.preserve():
        (tmp_path / "gone").rmdir()
        os.chdir(tmp_path)
    assert Path.cwd() == tmp_path


def _noted_after(draw, runs, monkeypatch):
    monkeypatch.delitem(sys.modules, "jobrun.generators", raising=False)
    events = []
    state = ProcessState(events.append)
    for number in range(runs):
        with state.preserve():
            draw(number)
    return [event.text for event in events]


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda _: random.random(), "random"),
        (lambda _: np.random.rand(), "numpy.random"),  # noqa: NPY002 - it is this one that is meant
    ],
)
def test_draws_from_an_undeclared_global_generator_are_reported_once(draw, name, monkeypatch):
    (text,) = _noted_after(draw, 9, monkeypatch)

    assert f"draws from the global generator of {name}" in text
    assert "jobrun.generators:seeded" in text


def test_a_module_that_draws_when_it_is_imported_is_not_reported(monkeypatch):
    def draw(number):
        if number == 1:
            random.random()

    assert _noted_after(draw, 9, monkeypatch) == []


def test_generators_that_are_part_of_the_state_are_not_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "jobrun.generators", sys)
    events = []
    state = ProcessState(events.append)
    for _ in range(9):
        with state.preserve():
            random.random()

    assert events == []
