"""Parts of jobs, from values to values."""

from __future__ import annotations

from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Probe, StopWhen
from jobrun.graph.effects import Log
from jobrun.graph.expressions import Binary, Const, OutputRead, Text
from jobrun.graph.query import (
    checkpointed_blobs,
    group_outputs,
    iter_steps,
    kept_names,
    outputs_read_later,
)
from jobrun.graph.steps import Assign, If, Loop, NameTarget, Net, Stop
from jobrun.graph.types import (
    Cluster,
    Job,
    Node,
    NodeSetup,
    Output,
    OutputRef,
    SetupNets,
    Task,
    TaskGroup,
)


def reads(task, output):
    return Net((Assign((NameTarget("x"),), OutputRead(task, output, "n")),))


def job(**changes):
    groups = {name: TaskGroup(name) for name in ("init", "epoch", "download", "exit")}
    return Job(**{"name": "j", "cluster": Cluster((Node("n"), Node("m"))), **groups, **changes})


def test_a_boundary_keeps_state_and_constants_of_every_node():
    names = kept_names(job(state=(("n", ("b", "a")),), constants=(("n", ("X",)),)))

    assert names == {"n": ("X", "a", "b"), "m": ()}


def test_outputs_that_are_read_after_their_group_are_found_wherever_they_are_read():
    outputs = tuple(Output(name, Const(1)) for name in "abcd")
    read_later = outputs_read_later(
        job(
            init=TaskGroup("init", (Task("i", "n", (reads("i", "d"),), outputs=outputs),)),
            epoch=TaskGroup(
                "epoch",
                (
                    Task("e", "n", (Loop(Const(2), (reads("i", "a"),)),), outputs=outputs),
                    Task("f", "n", (reads("e", "a"),), needs=("e",)),
                ),
            ),
            exit=TaskGroup("exit", (Task("x", "n", (reads("e", "b"),)),)),
            stop=(StopWhen(Probe("", (Binary(OutputRead("e", "c", "n"), "+", Const(1)),))),),
        )
    )

    assert read_later == {
        OutputRef("i", "n", "a"),
        OutputRef("e", "n", "b"),
        OutputRef("e", "n", "c"),
    }


def test_outputs_of_a_group():
    group = TaskGroup("g", (Task("t", "n", (), outputs=(Output("o", Const(1)),)),))

    assert group_outputs(group) == {OutputRef("t", "n", "o")}


def test_every_step_is_found_at_any_depth():
    log, stop = Log(Text(("a",))), Stop(None, "p")
    inner = If(((Const(True), (log,)),), (stop,))
    setup = NodeSetup("n", SetupNets(init=(Log(Text(("b",))),)))
    steps = list(
        iter_steps(
            job(epoch=TaskGroup("epoch", (Task("t", "n", (Loop(None, (inner,)),)),), (setup,)))
        )
    )

    assert [type(step).__name__ for step in steps] == ["Loop", "If", "Log", "Stop", "Log"]


def test_checkpointed_blobs_are_known_before_anything_runs():
    checkpointed = job(
        state=(("n", ("w", "k")), ("m", ("z",))),
        constants=(("n", ("X",)),),
        checkpoint=CheckpointPolicy(nodes=("n",)),
    )

    assert checkpointed_blobs(checkpointed) == {"n": ("k", "w")}
