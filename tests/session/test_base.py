from __future__ import annotations

import sys

import pytest

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError, UsageError
from jobrun.core.events import Noted
from jobrun.session import base
from jobrun.session.base import RunContext, merge_errors, open_session, session_names
from jobrun.session.threads.session import ThreadsSession


def test_a_context_without_a_listener_drops_events():
    RunContext(7, "/run", "/spec").emit(Noted("nothing"))


def test_contexts_are_compared_without_their_listener():
    assert RunContext(7, "a", "b", print) == RunContext(7, "a", "b")


def failure(code, message, kind=TaskFailedError):
    return kind.of(code, message, "mend it", path="p")


def test_one_error_stays_itself():
    error = failure("E200", "a")

    assert merge_errors([error]) is error


def test_the_first_decides_the_class_and_the_others_follow_in_a_fixed_order():
    first = failure("E285", "first", EnvironmentFaultError)
    first.__cause__ = cause = ValueError("why")
    others = [failure("E200", "b"), failure("E200", "a"), failure("E200", "b")]

    whole = merge_errors([first, *others])

    assert type(whole) is EnvironmentFaultError
    assert [fault.message for fault in whole.faults] == ["first", "a", "b"]
    assert whole.__cause__ is cause


def test_notes_are_kept():
    first, second = failure("E200", "a"), failure("E200", "b")
    first.add_note("one")
    second.add_note("two")

    assert merge_errors([first, second]).__notes__ == ["one", "two"]


def test_a_defect_goes_before_all_others():
    defect = KeyError("bug")

    whole = merge_errors([failure("E200", "a"), defect])

    assert whole is defect
    assert any("E200" in note for note in whole.__notes__)


def test_the_error_names_the_tasks_if_each_failure_is_of_one():
    first, second = TaskFailedError.of("E200", "one"), TaskFailedError.of("E200", "two")

    assert merge_errors([first, second], ["b", "a"]).tasks == ("a", "b")
    assert merge_errors([first, second], ["b", ""]).tasks == ()
    assert merge_errors([first]).tasks == ()


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
    monkeypatch.setattr(base, "_entry_points", lambda: Points([Point(lambda: dict)]))

    assert open_session("other") == {}
    assert session_names() == ("other", "processes", "ray", "threads")


def test_a_session_that_cannot_be_imported_is_a_fault_of_the_environment(monkeypatch):
    def load():
        raise ImportError("no module")

    monkeypatch.setattr(base, "_entry_points", lambda: Points([Point(load)]))

    with pytest.raises(EnvironmentFaultError, match="no module"):
        open_session("other")


def test_processes_is_built_in():
    assert type(open_session("processes")).__name__ == "ProcessesSession"


def test_session_without_its_package_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jobrun.session.ray.session", None)

    for name in ("ray", "ray:auto"):
        with pytest.raises(EnvironmentFaultError) as caught:
            open_session(name)
        assert caught.value.faults[0].code == "E217"
        assert caught.value.faults[0].mend == "pip install 'jobrun[ray]'"
