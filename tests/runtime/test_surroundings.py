"""What callables change of the whole process is put back, and told."""

from __future__ import annotations

import locale
import os
import signal
import sys
from pathlib import Path

import pytest

from jobrun.runtime.surroundings import Surroundings

DEAF = (signal.SIGTERM, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def _as_before():
    mask, text = os.umask(0o022), locale.setlocale(locale.LC_ALL)
    yield
    os.umask(mask)
    locale.setlocale(locale.LC_ALL, text)


@pytest.mark.parametrize(
    ("change", "find", "told"),
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
def test_row_73_what_a_task_changes_of_the_process_is_put_back_and_told_once(
    change, find, told, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    locale.setlocale(locale.LC_ALL, "C")
    before = find()
    events = []
    surroundings = Surroundings(events.append)

    for _ in range(2):
        with surroundings.kept():
            change()
        assert find() == before

    (noted,) = events
    assert told in noted.text
    assert noted.level == "warning"


def test_who_changes_nothing_is_told_nothing():
    events = []
    with Surroundings(events.append).kept():
        pass
    assert events == []


def test_it_is_put_back_after_a_failure_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fails():
        with Surroundings(lambda _: None).kept():
            os.chdir("/")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert Path.cwd() == tmp_path


def test_a_directory_that_is_gone_is_left(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    surroundings = Surroundings(lambda _: None)
    with surroundings.kept():
        (tmp_path / "gone").rmdir()
        os.chdir(tmp_path)
    assert Path.cwd() == tmp_path
