from __future__ import annotations

import threading

import numpy as np

from jobrun.core.events import Noted
from jobrun.runtime.codegen.numpy_warnings import NumpyWarnings
from tests.support.step_bench import Bench


def test_each_kind_is_told_once_per_place():
    with Bench(x=np.ones(2)) as bench, bench.notices.errstate():
        bench.do("a = x / 0.0; b = (x - x) / 0.0; c = exp(x * 1000)")
        bench.do("a = x / 0.0")

    told = sorted(event.text.partition(";")[0] for event in bench.events)
    assert told == [
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


def test_it_is_heeded_in_its_own_thread_only():
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


def test_a_context_tells_them_and_leaves_the_callers_way_alone():
    events: list[Noted] = []
    before = np.geterr()
    context = NumpyWarnings(events.append).context()

    context.copy().run(lambda: np.ones(1) / 0)

    assert [event.text.partition(" in ")[0] for event in events] == ["divide by zero"]
    assert np.geterr() == before
