from __future__ import annotations

import pytest
from msgspec.structs import replace

import jobrun
from jobrun.api import expression, steps
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.group_transforms import rebuild_group, remap_nodes, to_task
from jobrun.graph.query import used_nodes
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.steps import Stop
from jobrun.graph.types import (
    Cluster,
    Job,
    Node,
    NodeSetup,
    Output,
    RemoteNet,
    SetupNets,
    Task,
    TaskGroup,
)


def _job(*tasks, nodes=("n", "m")):
    start = tuple(Task("start", node, steps("x = 1", "y = 2")) for node in nodes)
    return complete(
        Job(
            "j",
            Cluster(tuple(map(Node, nodes))),
            TaskGroup("init", start),
            TaskGroup("epoch", tasks),
            stop=(StopAfterEpochs(2),),
        )
    ).job


def _refusal(group, **more):
    with pytest.raises(SpecError) as caught:
        to_task(group, **more)
    return caught.value.faults[0].code


def test_a_group_moves_to_other_nodes_any_number_of_times():
    group = _job(Task("a", "n", steps("x += 1")), Task("b", "m", steps("y += 1"))).epoch

    first, other = remap_nodes(group, {"m": "n"}), remap_nodes(group, {"n": "k"})

    assert used_nodes(first) == ("n",)
    assert used_nodes(other) == ("k", "m")
    assert remap_nodes(group, {"m": "n"}) == first
    assert used_nodes(group) == ("n", "m")


def test_only_moved_tasks_lose_their_scopes():
    group = _job(Task("a", "n", steps("x += 1")), Task("b", "m", steps("y += 1"))).epoch
    unmoved, moved = remap_nodes(group, {"m": "n"}).tasks
    assert unmoved == group.tasks[0]
    assert moved.scopes == ()


def test_tasks_that_queues_join_stay_tasks():
    queue = Queue("q")
    make = Task("make", "n", steps("z = 1"), write=(WriteQueue(queue, ("z",)),))
    use = Task("use", "n", steps("x += z"), read=ReadQueue(queue, ("z",)))

    assert _refusal(_job(make, use).epoch) == "E194"


def test_an_unknown_node_in_a_mapping_is_an_error():
    group = TaskGroup("epoch", (Task("a", "trainer", ()),))
    with pytest.raises(SpecError, match="did you mean 'trainer'"):
        remap_nodes(group, {"trainr": "n"})


def test_a_task_on_two_nodes_cannot_be_on_one():
    body = steps("x += 1")
    group = _job(Task("a", "n", body), Task("a", "m", body)).epoch
    with pytest.raises(SpecError, match="'a' would be on 'n' twice"):
        remap_nodes(group, lambda _: "n")


def test_setup_that_is_alike_runs_once_where_it_lands():
    nets = SetupNets(steps("s = 1"), name="epoch/setup")
    group = TaskGroup("epoch", (), tuple(NodeSetup(node, nets) for node in ("n", "m")))
    assert remap_nodes(group, lambda _: "k").setup == (NodeSetup("k", nets),)


def test_an_empty_group_gives_an_empty_task():
    assert to_task(TaskGroup("epoch")) == Task("grouped", "local", (), path="epoch/grouped")


def test_one_task_does_what_the_group_did(tmp_path):
    tasks = (
        Task("a", "n", (*steps("x += 1", "t = x"), Stop(expression("t > 0"), ""),
                        *steps("x = 100")), outputs=(Output("seen", expression("t")),)),
        Task("b", "n", steps("y += 10")),
        Task("c", "n", steps("y = y * x"), needs=("a", "b")),
    )  # fmt: skip
    job = _job(*tasks, nodes=("n",))
    merged = replace(job, name="one", epoch=TaskGroup("epoch", (to_task(job.epoch),)))

    blobs = [
        _blobs(jobrun.run(variant, jobrun.RunOptions(run_dir=tmp_path)))
        for variant in (job, merged)
    ]

    assert blobs[0] == blobs[1] == {"x": 3, "y": 102}


def _blobs(result):
    return {blob.name: blob.value for blob in jobrun.inspect(result.run_path).files[0].blobs}


def test_tasks_that_cannot_be_one_are_refused():
    private = (Task("a", "n", steps("t = x")), Task("b", "n", steps("t = y")))
    reading = (
        Task("a", "n", steps("t = x"), outputs=(Output("t", expression("t")),)),
        Task("b", "n", steps("u = a.t"), needs=("a",)),
    )
    assert _refusal(_job(*private).epoch) == "E194"
    assert _refusal(_job(*reading).epoch) == "E194"
    assert _refusal(_job(Task("a", "n", steps("t = x"), instances=2)).epoch) == "E194"


def test_a_group_on_several_nodes_needs_one_named():
    group = _job(Task("a", "n", steps("x += 1")), Task("b", "m", steps("y += 1"))).epoch
    assert _refusal(group) == "E195"
    assert to_task(group, node="m").node == "m"


def _with_remote(*nodes):
    nets = tuple(RemoteNet("f", node, steps("t = 1"), props=(("at", node),)) for node in nodes)
    return replace(TaskGroup("epoch", (Task("a", "n", ()),)), remote=nets)


def test_remote_nets_move_with_their_node_and_leave_its_properties_behind():
    unmoved, moving = _with_remote("n", "m").remote

    moved = remap_nodes(_with_remote("n", "m"), {"m": "k"}).remote

    assert moved == (unmoved, replace(moving, node="k", props=()))


def test_remote_nets_that_are_alike_on_one_node_are_one():
    group = _with_remote("n", "m")
    alike = replace(group, remote=tuple(replace(net, props=()) for net in group.remote))
    assert len(remap_nodes(alike, lambda _: "k").remote) == 1


def test_a_group_with_remote_nets_is_no_task():
    assert _refusal(_with_remote("n")) == "E194"
    assert to_task(replace(_with_remote("n"), remote=())).node == "n"


def test_rebuilt_tasks_include_their_needs():
    init = TaskGroup(
        "init",
        (
            Task("raw", "n", ()),
            Task("data", "n", (), needs=("raw",), rebuild=True),
            Task("seeds", "m", (), needs=("data",)),
        ),
        setup=(NodeSetup("n", SetupNets()), NodeSetup("m", SetupNets())),
    )

    rebuilt = rebuild_group(init)

    assert [task.name for task in rebuilt.tasks] == ["raw", "data"]
    assert [setup.node for setup in rebuilt.setup] == ["n"]
    assert rebuild_group(TaskGroup("init", (Task("a", "n", ()),))).tasks == ()
