from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.api import expression, steps
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.pipeline import compile_job, complete
from jobrun.compile.python_jobs import (
    check_file_name,
    check_report,
    check_steps,
    check_stop,
    check_task,
)
from jobrun.core.errors import SpecError
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import (
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Builtin, Call, Const, Draw, Dtype, Name, NodeBlob
from jobrun.graph.steps import Assign, If, Loop, NameTarget, Net, Stop
from jobrun.graph.types import (
    Cluster,
    Job,
    Node,
    NodeSetup,
    Output,
    Report,
    Scope,
    SetupNets,
    Task,
    TaskGroup,
)
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec
from tests.support.tables import each_case

SPEC = """\
jobrun: 1
name: walk
seed: 3
nodes: {a: {}, b: {}}
init:
  - {task: start, node: a, steps: [w = 1.0, n = 0], outputs: [{first: w + 1}]}
  - {task: other, node: b, steps: [v = 2.0]}
epoch:
  - task: move
    node: a
    steps:
      - t = start.first
      - {loop: 3, steps: [w = w + iter * t, {stop_if: w > 100}]}
      - {if: w > 50, then: [n += 1], else: [n += 2]}
metrics: {size: w}
stop: [{epochs: 4}, {when: w > 1000}]
"""


def _walk():
    """The same job as ``SPEC``, by constructors."""
    loop_steps = steps("w = w + iter * t", Stop(expression("w > 100"), ""))
    choice = If(((expression("w > 50"), steps("n += 1")),), steps("n += 2"))
    body = steps("t = start.first", Loop(expression("3"), loop_steps), choice)
    return Job(
        "walk",
        Cluster((Node("a"), Node("b"))),
        TaskGroup(
            "init",
            (
                Task(
                    "start",
                    "a",
                    steps("w = 1.0", "n = 0"),
                    outputs=(Output("first", expression("w + 1")),),
                ),
                Task("other", "b", steps("v = 2.0")),
            ),
        ),
        TaskGroup("epoch", (Task("move", "a", body),)),
        seed=3,
        metrics=(("size", Probe("w", (Name("w"),))),),
        stop=(StopAfterEpochs(4), StopWhen(Probe("w > 1000", (expression("w > 1000"),)))),
    )


def _small(**tasks):
    """A job of one state blob ``x`` and some epoch tasks on the node ``n``."""
    return Job(
        "small",
        Cluster((Node("n"),)),
        TaskGroup("init", (Task("start", "n", steps("x = 0")),)),
        TaskGroup("epoch", tuple(Task(name, "n", body) for name, body in tasks.items())),
        stop=(StopAfterEpochs(1),),
    )


def _faults(job):
    with pytest.raises(SpecError) as caught:
        complete(job)
    return {fault.code: fault for fault in caught.value.faults}


def test_a_job_by_hand_is_what_its_spec_compiles_to(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC)
    compiled = compile_job(load_spec(str(tmp_path / "walk.yaml"))).job

    by_hand = complete(_walk()).job

    assert replace(by_hand, folder=compiled.folder) == compiled


def test_completing_changes_nothing_of_a_completed_job():
    once = complete(_walk()).job
    assert complete(once).job == once


def test_a_compiled_spec_is_complete(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC)
    compiled = compile_job(load_spec(str(tmp_path / "walk.yaml"))).job
    assert complete(compiled).job == compiled


LEARNS = """\
jobrun: 1
name: learns
nodes: {a: {}, b: {}}
readers: {r: {counter: {stop: 9}, fields: [i], restart: never}}
init:
  - {task: model, node: a, rebuild: true, steps: [{call: "m:make", out: model}]}
  - {task: start, node: a, steps: [w = 0]}
  - {task: other, node: b, steps: [v = 0]}
epoch:
  - task: fit
    node: a
    read: r
    steps: [{call: "m:fit", with: {model: model, i: i}, inout: [model]}, w += i]
stop: [{epochs: 2}]
"""


def _learns(folder):
    (folder / "learns.yaml").write_text(LEARNS)
    return compile_job(load_spec(str(folder / "learns.yaml"))).job


def test_objects_that_callables_change_are_derived(tmp_path):
    compiled = _learns(tmp_path)
    assert [task.objects for task in compiled.epoch.tasks] == [("model",)]
    tasks = tuple(replace(task, objects=(), scopes=()) for task in compiled.epoch.tasks)

    assert complete(replace(compiled, epoch=replace(compiled.epoch, tasks=tasks))).job == compiled


def test_positions_of_readers_must_be_saved(tmp_path):
    job = _learns(tmp_path)
    policy = replace(job.checkpoint, nodes=("b",))

    assert "'a' holds the position" in _faults(replace(job, checkpoint=policy))["E120"].message


def test_saves_within_an_epoch_are_refused_as_in_a_spec():
    job = replace(_small(t=steps("x += 1")), checkpoint=CheckpointPolicy(every_records=5))

    assert _faults(job)["E190"].path == "checkpoint.every"


def test_a_probe_cannot_change_a_blob_of_a_named_node():
    probe = Probe("left", (Call("count_down", (NodeBlob("n", "x"),)),))

    assert "E132" in _faults(replace(_small(t=steps("x += 1")), metrics=(("left", probe),)))


def test_the_state_is_what_init_makes_on_each_node():
    job = complete(_walk()).job
    assert job.state == (("a", ("n", "w")), ("b", ("v",)))
    assert dict(job.epoch.tasks[0].scopes) == {"n": Scope.NODE, "t": Scope.TASK, "w": Scope.NODE}


def test_a_probe_gets_the_node_of_its_blob():
    job = complete(_walk()).job
    assert job.metrics[0][1].parts == (NodeBlob("a", "w"),)


def test_a_probe_of_a_blob_that_is_not_there_is_a_fault():
    job = replace(_small(t=steps("x += 1")), metrics=(("y", Probe("y", (Name("y"),))),))
    assert _faults(job)["E135"].path == "metrics.y"


def test_reading_what_was_never_made_is_a_fault_with_its_path():
    assert _faults(_small(t=steps("x = 1", "x = y")))["E180"].path == "epoch/t/steps[1]"


def test_two_tasks_that_write_one_blob_race():
    assert "E177" in _faults(_small(t=steps("x = 1"), u=steps("x = 2")))


def test_tasks_of_one_name_on_several_nodes_are_one_task():
    body = steps("x += 1")
    job = replace(
        _small(),
        cluster=Cluster((Node("n"), Node("m"))),
        init=TaskGroup("init", tuple(Task("start", on, steps("x = 0")) for on in ("n", "m"))),
        epoch=TaskGroup("epoch", (Task("t", "n", body), Task("t", "m", body))),
    )
    assert [task.full_name for task in complete(job).job.epoch.tasks] == ["n/t", "m/t"]

    other = replace(job.epoch.tasks[1], steps=steps("x += 2"))
    assert "E197" in _faults(replace(job, epoch=TaskGroup("epoch", (job.epoch.tasks[0], other))))


@each_case(
    ("change", "code"),
    [
        ({"cluster": Cluster((Node("m"),))}, "E142"),
        ({"cluster": Cluster((Node("n"), Node("n")))}, "E197"),
        ({"name": "../x"}, "E196"),
        ({"epoch": TaskGroup("epoch")}, "E139"),
        ({"epoch": TaskGroup("epoch", (Task("start", "n", ()),))}, "E174"),
        ({"epoch": TaskGroup("epoch", (Task("t", "n", (), rebuild=True),))}, "E164"),
        ({"epoch": TaskGroup("epoch", (Task("t", "n", (), needs=("u",)),))}, "E170"),
        ({"stop": ()}, "E137"),
        ({"checkpoint": CheckpointPolicy(nodes=("m",))}, "E142"),
        (
            {
                "epoch": TaskGroup(
                    "epoch", (Task("t", "n", ()),), (NodeSetup("m", SetupNets(name="s")),)
                )
            },
            "E169",
        ),
    ],
)
def test_what_a_spec_could_not_say_is_refused(change, code):
    assert code in _faults(replace(_small(t=steps("x += 1")), **change))


def test_a_function_that_is_not_there_is_a_fault():
    call = Output("o", Call("sqrtt", (Name("x"),)))
    job = _small(t=steps("x += 1"))
    task = replace(job.epoch.tasks[0], outputs=(call,))
    fault = _faults(replace(job, epoch=TaskGroup("epoch", (task,))))["E199"]
    assert fault.mend == "did you mean 'sqrt'?"


def test_a_completed_group_runs_in_a_session(tmp_path):
    job = complete(_walk()).job
    session = ThreadsSession()
    session.open(job.cluster, RunContext(3, str(tmp_path), str(tmp_path)))
    outputs = session.run(job.init, 0, {})

    session.run(job.epoch, 1, outputs)

    assert session.read("a", ("w", "n")) == {"w": 7.0, "n": 2}
    assert not isinstance(session.read("a", ("w",))["w"], np.ndarray)
    session.close()


def _assign(name, value=Const(1)):  # noqa: B008 - a frozen value
    return (Net((Assign((NameTarget(name),), value),)),)


def _code(vet, *arguments):
    faults = Faults()
    vet(*arguments, faults)
    try:
        faults.raise_if_any()
    except SpecError as error:
        return error.faults[0].code
    return None


@pytest.mark.parametrize("name", ["", "../a", ".a", "-a", "a/b", "a b", "a" * 65])
def test_a_name_that_cannot_be_a_files_is_refused(name):
    assert _code(check_file_name, name, "task", SpecPosition("x", NOWHERE)) == "E196"


def test_a_plain_name_is_a_name():
    assert _code(check_file_name, "trainer_0", "node", SpecPosition("x", NOWHERE)) is None


@pytest.mark.parametrize(
    "value", [Call("nothing"), Draw("nothing"), Builtin("nothing"), Dtype("nothing")]
)
def test_words_that_mean_nothing_are_refused(value):
    assert _code(check_steps, _assign("x", value), {}) == "E199"


@pytest.mark.parametrize(
    "value",
    [Call("sqrt"), Call("sum", (Const(1),), (("axs", Const(0)),)), Draw("normal", (Const(1),) * 9)],
)
def test_a_call_takes_what_its_signature_says(value):
    assert _code(check_steps, _assign("x", value), {}) == "E105"


@pytest.mark.parametrize(
    ("name", "code"), [("k", "E150"), ("sum", "E151"), ("a-b", "E151"), ("ok", None),
                       ("epoch/t/steps[0]:own", None)],
)  # fmt: skip
def test_names_of_blobs_are_those_of_the_language(name, code):
    assert _code(check_steps, _assign(name), {"k": 3}) == code


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (Task("t", "n", (), instances=0), "E198"),
        (Task("t", "n", (), reports=(Report(0.0, ()),)), "E163"),
        (Task("t", "n", _assign("x", Name("y"))), None),
    ],
)
def test_a_task_is_vetted_as_a_whole(task, code):
    assert _code(check_task, task, {}) == code


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_report_needs_an_interval_that_passes(interval_s):
    report = Report(interval_s, _assign("x"))
    assert _code(check_report, report, SpecPosition("x", NOWHERE), {}) == "E163"


@pytest.mark.parametrize(
    "condition",
    [
        StopAfterEpochs(0),
        StopAfterEpochs(-1),
        StopAfterEpochs(2.5),
        StopWithoutImprovement("m", 0),
        StopAfterTime(0.0),
        StopAfterTime(float("nan")),
        StopAfterTime(float("inf")),
    ],
)
def test_an_end_that_cannot_be_meant_is_refused(condition):
    assert _code(check_stop, condition, "stop[0]") == "E198"


@pytest.mark.parametrize(
    "condition", [StopAfterEpochs(1), StopAfterTime(0.5), StopWithoutImprovement("m", 3)]
)
def test_an_end_that_can_be_meant_is_not(condition):
    assert _code(check_stop, condition, "stop[0]") is None
