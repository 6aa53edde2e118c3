from __future__ import annotations

from jobrun.graph.types import OutputRef
from jobrun.runtime.frame import GroupRun
from jobrun.runtime.leash import Leash
from jobrun.session.beyond import Beyond
from tests.support.graphs import task

REF = OutputRef("t", "a", "x")


class News:
    """Keeps what is told elsewhere."""

    def __init__(self):
        self.told = []

    def ended(self, task, outputs):
        self.told.append((task, dict(outputs)))

    def failing(self):
        self.told.append("failing")

    def line(self, plan, run):
        return None


def group_run(outputs=None):
    return GroupRun("epoch", 1, 0, "", "", lambda _: None, outputs or {}, None, Leash())


def test_a_task_elsewhere_ends_when_that_is_told():
    beyond = Beyond({}, None, ["t", "u"], (), News())

    beyond.arrived("t", {REF: 5})

    part = beyond.ended.get_nowait()
    assert beyond.parts_of("t") == [part]
    assert beyond.parts_of("v") == []
    assert beyond.is_awaited(part)
    assert beyond.outputs == {REF: 5}


def test_what_nobody_waits_for_only_brings_its_outputs():
    beyond = Beyond({}, None, (), (), News())

    beyond.arrived("t", {REF: 5})

    assert beyond.ended.empty()
    assert beyond.outputs == {REF: 5}


def test_the_end_of_a_task_is_told_with_its_outputs_if_somebody_waits():
    beyond = Beyond({}, None, (), ("t",), news := News())
    run = group_run()
    one, other = (task(name, "x = 1", node="a", outputs={"x": "x"}) for name in ("t", "u"))

    beyond.telling(one, lambda: run.outputs.update({REF: 5}), run)()
    beyond.telling(other, lambda: None, run)()

    assert news.told == [("t", {REF: 5})]


def test_a_cancel_of_the_run_is_told_elsewhere_once():
    beyond = Beyond({}, None, (), (), news := News())
    run = group_run()

    with beyond.attached(run):
        run.body.cancel()
        run.body.cancel()

    assert news.told == ["failing"]


def test_a_cancel_from_elsewhere_reaches_the_run_and_is_not_told_back():
    beyond = Beyond({}, None, (), (), news := News())
    run, late = group_run(), group_run()

    with beyond.attached(run):
        beyond.cancel()
    with beyond.attached(late):
        pass

    assert (run.body.cancelled, late.body.cancelled) == (True, True)
    assert news.told == []
