"""Context variables that modules and callables set are seen by later tasks, in whichever thread."""

from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted
from jobrun.graph.readers import CallSource, Field, Reader, ReadRecords
from jobrun.graph.steps import Parallel
from jobrun.session.threads.session import ThreadsSession
from jobrun.testing.graphs import call, group, report, setup, task
from jobrun.testing.sessions import SessionHarness

RATE = """\
import contextvars
import time

RATE = contextvars.ContextVar("rate", default=1.0)
RATE.set(0.5)


def look():
    time.sleep(0.003)
    return RATE.get()


def change(to):
    RATE.set(to)


def change_for_itself(to):
    token = RATE.set(to)
    time.sleep(0.003)
    RATE.reset(token)


def fail_after_a_change(to):
    RATE.set(to)
    raise ValueError("after the change")
"""
# A module whose import changes what another one looks at.
SLOWER = """\
import time
import {library}

time.sleep(0.05)
{library}.RATE.set(0.25)


def look():
    return {library}.RATE.get()
"""
SCIPY = """\
import time

import scipy.special

scipy.special.seterr(singular="raise")


def look():
    time.sleep(0.003)
    return scipy.special.geterr()["singular"]
"""
PRINTED = """\
import time

import numpy as np

np.set_printoptions(precision=3)


def look():
    time.sleep(0.003)
    return str(np.array([1 / 3]))
"""
EPOCHS = 10


@pytest.fixture
def session():
    session = ThreadsSession()
    yield session
    session.close()


@pytest.fixture
def harness(session, tmp_path):
    return SessionHarness(session, tmp_path)


@pytest.fixture
def library(harness, request):
    """Write the module under a name of its own: each test imports it for the first time."""
    name = f"rate_{abs(hash(request.node.name))}"
    (harness.folder / f"{name}.py").write_text(RATE)
    return name


def _seen(harness, names, *tasks, epochs=EPOCHS):
    """Run a group again and again; return the different values that its blobs had."""
    harness.init("; ".join(f"{name} = 0.0" for name in names), " ".join(names))
    ran = group(*tasks)
    seen = set()
    for epoch in range(1, epochs + 1):
        harness.run(ran, epoch)
        seen.add(tuple(harness.value(name) for name in names))
    return seen


def _looking(name, target, blob, **more):
    return task(name, call(target, out=blob), node_blobs=blob, **more)


def _refused(harness, *tasks, **more):
    with pytest.raises(TaskFailedError) as raised:
        harness.run(group(*tasks, **more))
    return raised.value.faults


def test_variable_set_at_module_level_is_seen_in_all_threads(harness, library):
    tasks = [_looking(f"t{letter}", f"{library}:look", letter) for letter in "abc"]

    assert _seen(harness, "abc", *tasks) == {(0.5, 0.5, 0.5)}


@pytest.mark.parametrize(
    ("text", "value"), [(PRINTED, "[0.333]"), (SCIPY, "raise")], ids=["numpy", "scipy"]
)
def test_settings_of_libraries_at_the_top_of_a_module_hold_in_all_threads(harness, text, value):
    name = f"top_{abs(hash(text))}"
    (harness.folder / f"{name}.py").write_text(text)
    tasks = [_looking(f"t{letter}", f"{name}:look", letter) for letter in "abc"]

    assert _seen(harness, "abc", *tasks) == {(value, value, value)}


def test_variable_set_by_an_import_in_the_group_is_seen_from_the_start(harness, library):
    (harness.folder / f"slower_{library}.py").write_text(SLOWER.format(library=library))
    first = _looking("first", f"{library}:look", "a")
    second = _looking("second", f"slower_{library}:look", "b")

    assert _seen(harness, "ab", first, second) == {(0.25, 0.25)}


def test_a_second_session_of_the_process_sees_what_the_import_in_the_first_has_set(
    tmp_path, library, harness
):
    tasks = [_looking(f"t{letter}", f"{library}:look", letter) for letter in "ab"]
    _seen(harness, "ab", *tasks, epochs=1)
    other = ThreadsSession()
    (tmp_path / "other").mkdir()
    again = SessionHarness(other, tmp_path / "other")
    (again.folder / f"{library}.py").unlink(missing_ok=True)

    try:
        assert _seen(again, "ab", *tasks) == {(0.5, 0.5)}
    finally:
        other.close()


def test_variable_set_by_a_task_is_seen_by_tasks_that_need_it(harness, library):
    busy = [_looking("look", f"{library}:look", "a", needs=("set",)), task("beside", "x = 1")]
    harness.init("n = 0.0", "n")
    setting = task("set", "n = n + 1.0", call(f"{library}:change", to="n"), node_blobs="n")

    harness.init("a = 0.0", "a")
    for epoch in range(1, EPOCHS + 1):
        harness.run(group(setting, *busy), epoch)
        assert harness.value("a") == epoch


def test_variable_set_by_a_group_is_seen_by_later_groups(harness, library):
    harness.run(group(task("begin", call(f"{library}:change", to="3.0")), name="init"))
    tasks = [_looking(f"t{letter}", f"{library}:look", letter) for letter in "abc"]

    assert _seen(harness, "abc", *tasks) == {(3.0, 3.0, 3.0)}


def test_a_change_that_no_checkpoint_holds_is_warned_of_once(harness, library):
    for value in ("3.0", "4.0"):
        harness.run(group(task("begin", call(f"{library}:change", to=value)), name="init"))

    (noted,) = [event for event in harness.events if isinstance(event, Noted)]

    assert "'rate'" in noted.text
    assert "not saved" in noted.text


def test_change_during_a_concurrent_call_is_refused_by_name(harness, library):
    changing = task("changes", call(f"{library}:change", to="3.0"))
    looking = _looking("looks", f"{library}:look", "a")
    harness.init("a = 0.0", "a")

    (fault,) = _refused(harness, changing, looking)

    assert fault.code == "E177"
    assert "'rate'" in fault.message
    assert "'looks'" in fault.message
    assert "top of the module" in fault.mend


def test_a_refused_change_is_seen_by_no_later_call(harness, library):
    changing = task("changes", call(f"{library}:change", to="3.0"), on_error="warn")
    looking = _looking("looks", f"{library}:look", "a")

    assert _seen(harness, "a", changing, looking) == {(0.5,)}


def test_change_that_is_reset_is_invisible_to_concurrent_calls(harness, library):
    changing = task("changes", call(f"{library}:change_for_itself", to="3.0"))
    looking = _looking("looks", f"{library}:look", "a")

    assert _seen(harness, "a", changing, looking) == {(0.5,)}


def test_change_concurrent_with_a_task_of_another_chain_is_refused(harness, library):
    harness.init("a = 0.0", "a")
    first = task("first", call(f"{library}:look", out="x"))
    looking = _looking("looks", f"{library}:look", "a", needs=("first",))
    changing = task("changes", call(f"{library}:change", to="3.0"), needs=("first",))

    (fault,) = _refused(harness, first, changing, looking)

    assert (fault.code, "'looks'" in fault.message) == ("E177", True)


def test_a_change_before_two_tasks_that_run_at_the_same_time_is_seen_by_both(harness, library):
    setting = task("set", call(f"{library}:change", to="3.0"))
    looking = [_looking(f"t{letter}", f"{library}:look", letter, needs=("set",)) for letter in "ab"]

    assert _seen(harness, "ab", setting, *looking) == {(3.0, 3.0)}


def test_a_change_in_one_of_several_instances_is_refused(harness, library):
    (fault, *_) = _refused(harness, task("many", call(f"{library}:change", to="3.0"), instances=2))

    assert fault.code == "E177"


def test_change_in_a_branch_concurrent_with_a_call_is_refused(harness, library):
    branches = Parallel(
        ((call(f"{library}:change", to="3.0"),), (call(f"{library}:look", out="x"),)), "e/t/p"
    )

    (fault,) = _refused(harness, task("t", branches))

    assert fault.code == "E177"


def test_a_change_before_branches_of_which_one_calls_is_seen_by_that_one(harness, library):
    branches = Parallel(((call(f"{library}:look", out="a"),), ()), "e/t/p")
    branching = task("t", call(f"{library}:change", to="3.0"), branches, node_blobs="a")

    assert _seen(harness, "a", branching) == {(3.0,)}


def test_change_concurrent_with_a_calling_report_is_refused(harness, library):
    reporting = report(call(f"{library}:look", out="x"))

    (fault,) = _refused(
        harness, task("t", call(f"{library}:change", to="3.0"), reports=(reporting,))
    )

    assert fault.code == "E177"


def test_variable_set_in_setup_is_seen_by_the_task(harness, library):
    setup_block = setup([call(f"{library}:change", to="3.0")], [])
    looking = _looking("t", f"{library}:look", "a", setup=(setup_block,))

    assert _seen(harness, "a", looking, task("beside", "x = 1")) == {(3.0,)}


def test_a_retry_begins_with_the_context_variables_of_the_first_try(harness, library):
    failing = group(task("t", call(f"{library}:fail_after_a_change", to="3.0")))
    looking = _looking("looks", f"{library}:look", "a")
    _seen(harness, "a", looking, epochs=1)
    snapshot = harness.session.snapshot(failing)
    with pytest.raises(TaskFailedError):
        harness.run(failing)

    harness.session.restore(snapshot)

    assert _seen(harness, "a", looking) == {(0.5,)}


def test_variable_set_by_a_failed_task_holds_if_the_group_continues(harness, library):
    failing = task("t", call(f"{library}:fail_after_a_change", to="3.0"), on_error="warn")
    looking = _looking("looks", f"{library}:look", "a", needs=("t",))

    assert _seen(harness, "a", failing, looking) == {(3.0,)}


def test_nodes_of_one_process_that_run_at_the_same_time_may_not_change_a_variable(
    session, tmp_path
):
    harness = SessionHarness(session, tmp_path, "one", "two")
    (tmp_path / "rate_of_nodes.py").write_text(RATE)
    tasks = [
        task("t", call("rate_of_nodes:change", to="3.0"), node=node) for node in ("one", "two")
    ]

    faults = _refused(harness, *tasks)

    assert {fault.code for fault in faults} == {"E177"}


READER = """\
import contextvars

RATE = contextvars.ContextVar("rate", default=1.0)
RATE.set(0.5)


class Rows:
    def __init__(self):
        self.rate = RATE.get()

    def __iter__(self):
        for _ in range(3):
            yield self.rate + RATE.get()


class Setting(Rows):
    def __iter__(self):
        RATE.set(3.0)
        yield 1.0


def change(to):
    RATE.set(to)
"""


def _read_from(name):
    return ReadRecords(Reader("r", CallSource(name), (Field("row", ""),)))


@pytest.fixture
def reading(harness, request):
    name = f"reading_{abs(hash(request.node.name))}"
    (harness.folder / f"{name}.py").write_text(READER)
    return name


def test_a_class_from_which_a_task_reads_sees_what_its_module_and_earlier_groups_have_set(
    harness, reading
):
    reading_task = task("t", "a = row", read=_read_from(f"{reading}:Rows"), node_blobs="a")

    assert _seen(harness, "a", reading_task, epochs=3) == {(1.0,)}
    harness.run(group(task("begin", call(f"{reading}:change", to="3.0"))))
    assert _seen(harness, "a", reading_task, epochs=3) == {(6.0,)}


@pytest.mark.parametrize("calls", [True, False])
def test_a_class_from_which_a_task_reads_may_not_set_a_variable_that_others_see(
    harness, reading, calls
):
    # It reads ahead: when it does so depends on timing.
    steps = [call(f"{reading}:change", to="row")] if calls else ["x = row"]
    reading_task = task("t", *steps, read=_read_from(f"{reading}:Setting"))

    fault = _refused(harness, reading_task)[0]

    assert fault.code == "E177"
