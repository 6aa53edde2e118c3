from __future__ import annotations

import errno
import random
import threading

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError, Fault, Origin, TaskFailedError
from jobrun.core.events import Noted
from jobrun.graph.steps import Net
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.step_errors import NumpyWarnings, explain_at, is_only_missing_blobs
from jobrun.testing.graphs import op
from tests.support.step_bench import Bench

PLACE = StepLocation("e/t/steps[4]", Origin("job.yaml", 7, 3))


@pytest.fixture
def bench():
    with Bench(x=1) as step_bench:
        yield step_bench


def test_an_error_gets_place_and_circumstances(bench):
    bench.frame.instances, bench.frame.instance = 4, 2

    fault = explain_at(ValueError("bad\nmore"), PLACE, bench.frame).faults[0]

    assert fault.message == (
        "the step failed with ValueError: bad (task t, node local, epoch 3, instance 2)"
    )
    assert (fault.path, str(fault.where)) == ("e/t/steps[4]", "job.yaml:7:3")
    assert fault.mend


def test_an_error_without_text_is_named(bench):
    assert "with KeyError (" in explain_at(KeyError(), PLACE, bench.frame).faults[0].message


def test_a_fault_keeps_its_class_code_and_notes(bench):
    error = EnvironmentFaultError(Fault("E285", "no space", "make some"))
    error.add_note("a note")

    explained = explain_at(error, PLACE, bench.frame)

    assert type(explained) is EnvironmentFaultError
    assert (explained.faults[0].code, explained.faults[0].path) == ("E285", "e/t/steps[4]")
    assert explained.__notes__ == ["a note"]


def test_a_fault_that_has_its_place_is_left_alone(bench):
    error = TaskFailedError(Fault("E200", "m", "n", path="elsewhere"))

    assert explain_at(error, PLACE, bench.frame) is error


def test_the_operator_that_failed_is_found_among_several_on_one_line(bench):
    line = Origin("job.yaml", 3, 1)
    ops = [
        replace(op(text, f"e/t/steps[{i}]"), origin=line)
        for i, text in enumerate(("a = x", "b = a / 0", "c = b"))
    ]

    with pytest.raises(TaskFailedError) as caught:
        bench.do(Net(tuple(ops)))

    assert caught.value.faults[0].path == "e/t/steps[1]"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_name_of_a_nets_parameter_is_shown_as_written(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do("y = missing", shared=None)

    assert "'missing'" in caught.value.faults[0].message


def test_echoes_are_distinguished_from_errors():
    echo, other = Fault("E201", "m"), Fault("E200", "m")

    assert is_only_missing_blobs(TaskFailedError(echo, echo))
    assert not is_only_missing_blobs(TaskFailedError(echo, other))


def test_an_error_of_the_system_is_an_environment_fault(bench):
    error = explain_at(OSError(errno.EMFILE, "Too many open files", "x.py"), PLACE, bench.frame)

    assert isinstance(error, EnvironmentFaultError)
    assert error.exit_code == 7
    assert error.faults[0].code == "E222"
    assert "Too many open files (task t" in error.faults[0].message


def test_a_value_that_cannot_be_copied_is_refused_with_the_blob_it_was_for(bench):
    bench.blobs["draws"] = random.Random(1)

    with pytest.raises(TaskFailedError) as caught:
        bench.do("mine = draws", shared=None)

    assert caught.value.faults[0].code == "E240"
    assert "(blob 'mine', task t" in caught.value.faults[0].message


def test_each_kind_of_warning_is_reported_once_per_location():
    with Bench(x=np.ones(2)) as bench, bench.notices.errstate():
        bench.do("a = x / 0.0; b = (x - x) / 0.0; c = exp(x * 1000)")
        bench.do("a = x / 0.0")

    warnings = sorted(event.text.partition(";")[0] for event in bench.events)
    assert warnings == [
        "divide by zero in e/t/steps[0]",
        "invalid value in e/t/steps[1]",
        "overflow in e/t/steps[2]",
    ]
    assert {event.level for event in bench.events} == {"warning"}


def test_values_are_what_numpy_makes_them():
    with Bench(x=np.ones(2)) as bench, bench.notices.errstate():
        assert np.isinf(bench.do("a = x / 0.0")["a"]).all()


def test_underflow_is_not_worth_a_word():
    with Bench(x=np.full(1, 1e-300)) as bench, bench.notices.errstate():
        bench.do("a = x * x")

    assert bench.events == []


def test_numpy_warnings_are_observed_in_one_thread_only():
    events: list[object] = []
    notices = NumpyWarnings(events.append)
    seen: list[str] = []
    with notices.errstate():
        thread = threading.Thread(target=lambda: seen.append(np.geterr()["divide"]))
        thread.start()
        thread.join()

    assert seen == ["warn"]


def test_outside_of_generated_code_the_place_is_just_an_expression():
    events: list[Noted] = []
    with NumpyWarnings(events.append).errstate():
        np.ones(1) / 0

    assert "an expression" in events[0].text


def test_a_context_reports_warnings_and_restores_the_error_mode():
    events: list[Noted] = []
    before = np.geterr()
    context = NumpyWarnings(events.append).context()

    context.copy().run(lambda: np.ones(1) / 0)

    assert [event.text.partition(" in ")[0] for event in events] == ["divide by zero"]
    assert np.geterr() == before
