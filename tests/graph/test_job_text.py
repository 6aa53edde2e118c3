"""A job as text."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.core.errors import Origin
from jobrun.graph import drawing as draw
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.effects import Assert, Log, Metric, Sleep
from jobrun.graph.expressions import Builtin, Const, Hole, Name, NodeBlob, Text
from jobrun.graph.job_text import (
    QueueLink,
    find_queue_links,
    limit_notes,
    node_notes,
    queue_notes,
    read_name,
    reader_notes,
    render_job,
    render_op,
    render_probe,
    render_queue_link,
    render_step,
    render_steps,
    render_stop,
    task_notes,
    used_readers,
    work_notes,
)
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    WriteQueue,
    ZipSource,
)
from jobrun.graph.steps import (
    AdoptState,
    CallPython,
    CopyState,
    DataFile,
    Guard,
    If,
    Load,
    LoadState,
    Loop,
    Net,
    Parallel,
    PublishCopy,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.types import Cluster, Job, Node, RemoteNet, Retry, SetupNets, Task, TaskGroup
from jobrun.testing.graphs import expr, log, op
from tests.support.tables import each_case

PROBE = Probe("w over n", (NodeBlob("n0", "w"), NodeBlob("n1", "w")), "max")


def _job(**more):
    groups = {name: TaskGroup(name) for name in ("init", "epoch", "download", "exit")}
    return Job("j", Cluster((Node("n0"),)), **{**groups, **more})


def test_an_empty_job_has_a_few_lines():
    assert render_job(_job()) == ("job j\nseed 0\nblas_threads 1\nnode n0\ncheckpoint default\n")


def test_places_in_files_are_left_out():
    here, there = (
        _job(epoch=TaskGroup("epoch", (Task("t", "n0", (), origin=Origin("a", line, 1)),)))
        for line in (3, 4)
    )

    assert here == there
    assert render_job(here) == render_job(there)


def test_no_checkpoint_is_said():
    assert "checkpoint none" in render_job(_job(checkpoint=CheckpointPolicy(enabled=False)))


def test_a_probe_over_nodes_names_each():
    assert render_probe(PROBE) == "max of n0.w, n1.w"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (StopAfterEpochs(3), "after 3 epochs"),
        (StopWhen(PROBE), "when max of n0.w, n1.w"),
        (StopAfterTime(90.0), "after 90 s"),
        (StopWithoutImprovement("m", 5, "max", 0.1),
         "when m has no better max for 5 epochs, by 0.1"),
        (Endless(), "never"),
    ],
)  # fmt: skip
def test_a_stop_condition_is_a_few_words(condition, text):
    assert render_stop(condition) == text


def test_limits_hosts_and_remote_nets_are_part_of_the_graph():
    job = replace(
        _job(
            epoch=TaskGroup(
                "epoch",
                (Task("t", "n0", (), instances=2, timeout_s=5.0, retry=Retry(2, 1.0)),),
                remote=(
                    RemoteNet(
                        "f",
                        "n0",
                        (log("hi"),),
                        setup=(SetupNets((log("in"),), name="s"),),
                        path="epoch/remote[0]",
                    ),
                ),
            )
        ),
        cluster=Cluster((Node("n0", host="there", resources=(("gpu", 1.0),)),)),
    )

    assert render_job(job) == (
        "job j\nseed 0\nblas_threads 1\nnode n0\n"
        "group epoch private\n"
        "  task n0/t; instances 2\n"
        "  remote n0/f epoch/remote[0]\n"
        "    s.init\n"
        "      log in\n"
        "    log hi\n"
        "place of n0: host there; gpu 1\n"
        "limits of n0/t: at most 5 s; 2 retries after 1 s\n"
        "checkpoint default\n"
    )


def test_what_a_nodes_steps_can_read_of_it_is_part_of_the_graph():
    nodes = Cluster((Node("t_0", "t", 0, 2), Node("t_1", "t", 1, 2)))
    lines = render_job(replace(_job(), cluster=nodes)).splitlines()

    assert [line for line in lines if line.startswith("node")] == [
        "node t_0; 0 of 2 t",
        "node t_1; 1 of 2 t",
    ]


def test_directory_and_interval_of_checkpoints_are_separate_lines():
    policy = CheckpointPolicy(directory="there", nodes=("n0",), every_epochs=5)
    lines = render_job(replace(_job(), checkpoint=policy)).splitlines()

    assert lines[-3:] == ["saves n0", "saves into there", "checkpoint every_epochs=5"]


NET = Net((op("x = 1"), op("y = x")))
TEXT = Text(("a ", Hole(Name("x"), ".3g")))


@each_case(
    "text", ["y = x + 1", "a, b = f(x)", "w -= lr * g", "x[i] = y", "x[a, 1:] += 2", "del x, y",
             "count_up(c)", "x[i], y = f(z)"],
)  # fmt: skip
def test_an_operator_is_written_as_in_a_spec(text):
    assert render_op(op(text)) == text


LINES: list[tuple[Step, str]] = [
    (NET, "x = 1"),
    (Net(()), "nothing"),
    (UseNet("f", ()), "net f"),
    (CallPython("m:f", (("w", Name("v")),), ("w",), ("a", "b")), "a, b = call m:f(w=v (inout))"),
    (RunProgram((Text(("ls",)), Text(("-l",)))), "run ls -l"),
    (Loop(None, ()), "loop forever"),
    (Loop(Const(3), ()), "loop 3"),
    (While(expr("x > 1"), ()), "while x > 1"),
    (If(((Name("a"), ()),)), "if a"),
    (Stop(None, "epoch/t"), "stop epoch/t"),
    (Stop(expr("x > 1"), "epoch/t"), "stop epoch/t if x > 1"),
    (Guard("g", ()), "guard g"),
    (Parallel(((), ())), "parallel (2 branches)"),
    (Load((DataFile("x", Text(("a.npz",)), "m"),)), "load x <- a.npz::m"),
    (Save((DataFile("x", Text((Builtin("run.dir"), "/a.npy"))),)), "save x -> ${run.dir}/a.npy"),
    (Log(TEXT), "log a {x:.3g}"),
    (Metric((("m", expr("x * 2")),)), "metric m = x * 2"),
    (Assert(expr("x > 1"), TEXT), "assert x > 1"),
    (Sleep(0.25), "sleep 0.25s"),
    (SaveState("t.h5", ("a", "b"), "r"), "save state a, b -> t.h5"),
    (LoadState("t.h5", ("a",), 1, "r", "d"), "load state a <- t.h5"),
    (AdoptState(("a", "b")), "adopt state a, b"),
    (CopyState("e/t.h5", "there", "t", 1, "d"), "copy e/t.h5 -> there"),
    (PublishCopy("e", "there/.tmp", "there/e"), "publish there/.tmp -> there/e"),
]


@each_case(("step", "line"), LINES)
def test_a_step_is_one_line(step, line):
    assert render_step(step) == line


def test_inner_steps_are_indented():
    steps = (
        If(((Name("a"), (NET,)), (Name("b"), (NET,))), (Log(Text(("hi",))),)),
        Parallel(((NET,), (Loop(Const(2), (NET,)),))),
    )

    assert list(render_steps(steps)) == [
        "if a",
        "  x = 1",
        "  y = x",
        "elif b",
        "  x = 1",
        "  y = x",
        "else",
        "  log hi",
        "parallel (2 branches)",
        "  branch 0",
        "    x = 1",
        "    y = x",
        "  branch 1",
        "    loop 2",
        "      x = 1",
        "      y = x",
    ]


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({}, []),
        ({"instances": 4, "hogwild": True}, ["4 instances", "hogwild"]),
        ({"rebuild": True}, ["rebuild"]),
        ({"timeout_s": 90.0}, ["at most 90 s"]),
        ({"retry": Retry(1)}, ["1 retry"]),
        ({"retry": Retry(3, 0.5)}, ["3 retries after 0.5 s"]),
        ({"on_error": "warn"}, ["a failure is only reported"]),
    ],
)
def test_what_is_special_about_a_task_is_said_in_words(settings, notes):
    assert task_notes(Task("t", "n", (), **settings)) == notes


def test_notes_on_work_and_on_failures_are_separate():
    task = Task("t", "n", (), hogwild=True, timeout_s=5.0, on_error="warn")

    assert work_notes(task) == ["hogwild"]
    assert limit_notes(task) == ["at most 5 s", "a failure is only reported"]


def test_a_node_is_known_by_what_it_asks_for():
    assert node_notes(Node("n")) == []
    node = Node("n", host="there", resources=(("gpu", 1.0), ("cpu", 0.5)))
    assert node_notes(node) == ["host there", "gpu 1", "cpu 0.5"]


QUEUE = Queue("batches", 4, ordered=True, batch=2)
MAKE = Task("make", "n0", (), write=(WriteQueue(QUEUE, ("x", "y")),))
MORE = Task("more", "n0", (), write=(WriteQueue(QUEUE, ("x", "y")),))
USE = Task("use", "n0", (), read=ReadQueue(QUEUE, ("x", "y")), instances=3)
GROUP = TaskGroup("epoch", (MAKE, MORE, USE))
JOB = Job("j", Cluster((Node("n0"),)), TaskGroup("init"), GROUP)


def test_a_queue_joins_the_tasks_that_write_to_it_and_read_from_it():
    assert find_queue_links(GROUP) == (QueueLink(QUEUE, ("x", "y"), ("make", "more"), ("use",)),)


def test_a_task_on_many_nodes_is_listed_once():
    nodes = tuple(Task("make", f"n{i}", (), write=MAKE.write) for i in range(3))

    assert find_queue_links(TaskGroup("epoch", nodes))[0].writers == ("make",)


def test_what_is_special_about_a_queue_is_said_in_words():
    assert queue_notes(Queue("q")) == ["room for 100"]
    assert queue_notes(Queue("q", 1, shared=True)) == ["room for 1", "shared"]
    assert render_queue_link(find_queue_links(GROUP)[0]) == (
        "make, more => batches (room for 4, ordered, 2 at a time) => use"
    )


def test_a_task_says_what_it_reads_and_writes():
    assert task_notes(MAKE) == ["writes x, y to batches"]
    assert task_notes(USE) == ["3 instances", "reads batches"]
    assert (read_name(USE), read_name(MAKE)) == ("batches", None)


def test_pictures_show_queues_between_tasks():
    assert "|  == make, more => batches (room for 4, ordered, 2 at a time) => use\n" in (
        draw.ascii(JOB)
    )
    words = '"batches: room for 4, ordered, 2 at a time"'
    assert f"    epoch_0 == {words} ==> epoch_2\n" in draw.mermaid(JOB)
    assert f"    epoch_1 -> epoch_2 [label={words}, style=bold];\n" in draw.dot(JOB)


_X = (Field("x", "data"),)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (FileSource("npz", Text((Builtin("run.dir"), "/a.npz"))), "${run.dir}/a.npz"),
        (BlobSource((("data", Name("X")),)), "blobs X"),
        (CounterSource(), "numbers from 0 without end"),
        (CounterSource(1, 9, 2), "numbers from 1 to 9 by 2"),
        (CallSource("lib:Rows"), "lib:Rows"),
        (ZipSource((Reader("a", CounterSource()), Reader("b", CounterSource()))), "a beside b"),
    ],
)
def test_the_first_note_says_what_records_are(source, text):
    assert reader_notes(Reader("r", source, _X)) == (f"x = data from {text}",)


def test_the_first_note_says_what_cuts_a_ragged_field():
    fields = (Field("x", "v", "n"), Field("n", "n"))

    assert reader_notes(Reader("r", BlobSource((("v", Name("V")),)), fields))[0] == (
        "x = v cut by n, n from blobs V"
    )


def test_the_others_say_how_they_come():
    reader = Reader("r", CounterSource(), _X, 64, True, True, "never", 20, 5.0, 0.5, "node")

    assert reader_notes(reader)[1:] == (
        "batches of 64, full ones only",
        "shuffled by seed and pass",
        "continues where the last epoch ended",
        "at most 20 records an epoch",
        "at most 5 s an epoch",
        "0.5 s before each record",
        "each node reads a part of the rows; other nodes divide what is left of the pass",
    )


def test_a_reader_that_restarts_is_divided_again_in_each_pass():
    reader = Reader("r", CounterSource(), _X, shard="instance")

    assert reader_notes(reader)[-1] == (
        "each instance reads a part of the rows; other instances divide them again in the next pass"
    )


def test_a_reader_is_used_once_however_many_read_it():
    inner = Reader("one", CounterSource(), _X)
    both = Reader("both", ZipSource((inner,)), _X)
    tasks = tuple(Task(name, "n", (), read=ReadRecords(both)) for name in "ab")
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), TaskGroup("epoch", tasks))

    assert used_readers(job) == (both, inner)
