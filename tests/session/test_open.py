from __future__ import annotations

import sys

import pytest

from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.session import open as opening
from jobrun.session.open import open_session, session_names
from jobrun.session.threads.session import ThreadsSession


class Point:
    """What an installed package declares."""

    name = "other"

    def __init__(self, load) -> None:
        self.load = load


class Points(tuple):
    __slots__ = ()
    names = frozenset({"other"})

    def select(self, name):
        return [point for point in self if point.name == name]


def test_threads_is_built_in():
    assert type(open_session("threads")) is ThreadsSession
    assert "threads" in session_names()


def test_an_unknown_session_gets_a_suggestion():
    with pytest.raises(UsageError) as caught:
        open_session("thread")

    assert "threads" in caught.value.faults[0].mend


def test_a_session_of_a_package_is_found(monkeypatch):
    monkeypatch.setattr(opening, "_entry_points", lambda: Points([Point(lambda: dict)]))

    assert open_session("other") == {}
    assert session_names() == ("other", "processes", "ray", "threads")


def test_a_session_that_cannot_be_imported_is_a_fault_of_the_environment(monkeypatch):
    def load():
        raise ImportError("no module")

    monkeypatch.setattr(opening, "_entry_points", lambda: Points([Point(load)]))

    with pytest.raises(EnvironmentFaultError, match="no module"):
        open_session("other")


def test_processes_is_built_in():
    assert type(open_session("processes")).__name__ == "ProcessesSession"


def test_a_session_whose_package_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jobrun.session.ray.session", None)

    for name in ("ray", "ray:auto"):
        with pytest.raises(EnvironmentFaultError) as caught:
            open_session(name)
        assert caught.value.faults[0].code == "E217"
        assert caught.value.faults[0].mend == "pip install 'jobrun[ray]'"
