"""What callables set in libraries holds in all threads, and can be taken to another process."""

from __future__ import annotations

import contextvars
import decimal
import json
import os
import sys
import threading
import time

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.context.library_settings import LibrarySettings


@pytest.fixture
def settings():
    depth = sys.getrecursionlimit()
    yield contextvars.Context().run(LibrarySettings)
    sys.setrecursionlimit(depth)


def _in_new_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def _precise():
    decimal.getcontext().prec = 50


def _precision():
    return decimal.getcontext().prec


def test_settings_of_one_thread_apply_in_another(settings):
    settings.within(lambda: settings.call(_precise))

    assert _in_new_thread(lambda: settings.call(_precision)) == 50


def test_a_thread_that_has_changed_nothing_takes_nothing_back(settings):
    begun, ended = threading.Event(), threading.Event()

    def slow():
        settings.call(_precision)
        begun.set()
        ended.wait()

    other = threading.Thread(target=lambda: settings.within(slow))
    other.start()
    begun.wait()
    settings.within(lambda: settings.call(_precise))
    ended.set()
    other.join()

    assert _in_new_thread(lambda: settings.call(_precision)) == 50


def test_nothing_is_captured_where_nothing_was_changed(settings):
    settings.within(lambda: settings.call(_precision))

    assert settings.capture() == {}


def test_captured_settings_are_json_and_restore_in_another_process_what_was_set(settings):
    settings.within(lambda: settings.call(_precise))
    settings.within(lambda: settings.call(np.seterr, over="raise"))
    settings.call(sys.setrecursionlimit, 4321)
    taken = json.loads(json.dumps(settings.capture()))
    sys.setrecursionlimit(1000)

    other = LibrarySettings()
    other.restore(taken)

    assert other.call(_precision) == 50
    assert other.call(np.geterr)["over"] == "raise"
    assert sys.getrecursionlimit() == 4321
    assert other.capture() == taken


def test_a_change_back_is_captured_like_any_other(settings):
    settings.load(_precise)
    settings.within(lambda: settings.call(lambda: setattr(decimal.getcontext(), "prec", 28)))

    assert settings.capture()["decimal.context"]["prec"] == 28


def test_what_a_module_sets_when_it_is_imported_holds_in_all_threads_and_is_not_captured(settings):
    settings.load(_precise)

    assert _in_new_thread(lambda: settings.call(_precision)) == 50
    assert settings.capture() == {}


def test_what_was_not_set_when_it_was_captured_is_undone_by_a_restore_in_all_threads(settings):
    before = settings.capture()
    settings.within(lambda: settings.call(_precise))

    settings.restore(before)

    assert settings.call(_precision) == _in_new_thread(lambda: settings.call(_precision)) == 28
    assert settings.capture() == {}


def test_settings_of_the_embedding_program_are_captured():
    def run():
        _precise()
        return LibrarySettings().capture()

    assert contextvars.Context().run(run)["decimal.context"]["prec"] == 50


def test_a_context_of_the_caller_is_not_changed(settings):
    before = decimal.getcontext().prec, np.geterr()
    settings.call(_precise)
    settings.call(np.seterr, all="raise")

    assert (decimal.getcontext().prec, np.geterr()) == before


def test_context_variables_of_the_program_around_are_seen_by_callables():
    variable = contextvars.ContextVar("around", default=0)

    def run():
        variable.set(1)
        return LibrarySettings()

    enclosing = contextvars.Context().run(run)

    assert enclosing.call(variable.get) == _in_new_thread(lambda: enclosing.call(variable.get)) == 1
    assert variable.get() == 0


def test_a_token_of_an_earlier_call_resets_its_variable_in_the_same_thread(settings):
    variable = contextvars.ContextVar("once", default=0)
    token = settings.call_for_task("t", lambda: variable.set(1))
    settings.call_for_task("t", lambda: variable.reset(token))

    assert settings.call(variable.get) == _in_new_thread(lambda: settings.call(variable.get)) == 0


def test_a_value_that_has_no_comparison_can_be_set(settings):
    variable = contextvars.ContextVar("array")
    for value in (np.zeros(2), np.ones(2)):
        settings.call_for_task("t", lambda value=value: variable.set(value))

        assert _in_new_thread(lambda: settings.call(variable.get)) is value


def test_contexts_of_decimal_stay_with_their_threads(settings):
    settings.call_for_task("t", lambda: contextvars.ContextVar("x").set(1))
    here = settings.call(decimal.getcontext)

    assert _in_new_thread(lambda: settings.call(decimal.getcontext)) is not here


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sys.recursion_limit", "deep", "cannot be set to deep"),
        ("torch.of_another_version", 1, "does not know the setting torch.of_another_version"),
    ],
)
def test_a_setting_that_cannot_be_made_is_refused_by_name(name, value, reason, settings):
    with pytest.raises(EnvironmentFaultError, match=reason) as raised:
        settings.restore({name: value})

    assert raised.value.faults[0].code == "E268"


def test_a_library_that_is_not_there_is_named(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpmath", None)

    with pytest.raises(EnvironmentFaultError, match=r"mpmath\.prec cannot be set"):
        settings.restore({"mpmath.prec": 100})


def test_nodes_that_share_the_process_are_warned_of_once():
    events = []
    settings = contextvars.Context().run(LibrarySettings, events.append, 2)
    for precision in (40, 50):

        def change(precision=precision):
            decimal.getcontext().prec = precision

        settings.within(lambda change=change: settings.call(change))

    (noted,) = events
    assert "decimal.context" in noted.text
    assert "--session processes" in noted.text


def test_a_change_beside_tasks_that_run_at_the_same_time_is_warned_of_once():
    events = []
    settings = contextvars.Context().run(LibrarySettings, events.append)
    for precision, tasks in ((40, None), (50, ("make", "fit")), (60, ("make", "fit"))):
        settings.find_concurrent = lambda tasks=tasks: tasks

        def change(precision=precision):
            decimal.getcontext().prec = precision

        settings.within(lambda change=change: settings.call(change))

    (noted,) = events
    assert "decimal.context" in noted.text
    assert "'make' and 'fit'" in noted.text
    assert "needs:" in noted.text


def test_flags_of_decimals_are_no_reason_for_a_warning():
    events = []
    settings = contextvars.Context().run(lambda: LibrarySettings(events.append, 2))

    settings.within(lambda: settings.call(lambda: decimal.Decimal(1) / 3))

    assert settings.capture() == {"decimal.flags": ["Inexact", "Rounded"]}
    assert events == []


def test_the_time_zone_is_that_of_before_when_a_run_has_ended(monkeypatch, settings):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def change():
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()

    with settings.watch():
        settings.within(lambda: settings.call(change))
    assert settings.capture()["time.zone"][0] == "JST"
    settings.close()

    assert time.tzname[0] == "UTC"
