from __future__ import annotations

import pytest

import jobrun
from jobrun.compile.plan_document import plan_json
from jobrun.compile.plan_text import plan_text
from jobrun.core.errors import SpecError
from jobrun.graph.query import walk
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.steps import Stop
from tests.support.compiling import codes_of, fault_of, faults_of, job_of, task_of

NODES = "nodes: {a: {}, b: {}}\ninit: [{task: start, node: a, steps: [w = 1.0]}]\n"


def pipeline(*tasks: str, queues: str = "q: {}", more: str = "") -> str:
    return f"{more}queues: {{{queues}}}\nepoch:\n" + "".join(f"  - {{{task}}}\n" for task in tasks)


MAKE = "task: make, steps: [x = 1], write: {q: [x]}"
USE = "task: use, read: q, steps: [y = x]"


def test_a_pipeline_of_several_stages_compiles(tmp_path):
    job_of(
        tmp_path,
        pipeline(
            MAKE,
            "task: mid, read: q, instances: 2, steps: [z = 2 * x], write: {r: [z, x]}",
            "task: use, read: r, steps: [w = w + z + x]",
            queues="q: {}, r: {ordered: true}",
        ),
    )


@pytest.mark.parametrize(
    ("text", "message", "mend"),
    [
        (pipeline("task: t, steps: [w = w + 1]"), "no task writes to queue 'q' or reads from it",
         "remove it"),
        (pipeline(MAKE), "task 'make' writes to queue 'q', and no task reads from it",
         "add read: q in another task of 'epoch'"),
        (pipeline(USE), "task 'use' reads from queue 'q', and no task writes to it",
         "add write: {q: [x]}"),
        (pipeline(MAKE, more="exit: [{task: use, read: q, steps: [y = x]}]\n"),
         "no task in 'epoch' reads from it", "'exit' does not count"),
        (pipeline(f"{MAKE}, node: a", f"{USE}, node: b", more=NODES),
         "on node 'a', and no task there reads from it", "shared: true"),
    ],
)  # fmt: skip
def test_a_queue_without_writer_or_reader_is_reported_with_its_position(
    tmp_path, text, message, mend
):
    fault = faults_of(tmp_path, text)[0]

    assert fault.code == "E192"
    assert message in fault.message
    assert mend in fault.mend
    assert fault.where.line > 0


def test_a_shared_queue_joins_nodes(tmp_path):
    text = pipeline(f"{MAKE}, node: a", f"{USE}, node: b", queues="q: {shared: true}", more=NODES)

    assert codes_of(tmp_path, text) == []


def test_all_writers_of_a_queue_send_the_same_names_in_the_same_order(tmp_path):
    other = "task: other, steps: [x = 1, y = 2], write: {q: [y, x]}"
    text = pipeline(MAKE.replace("[x]", "[x, y]").replace("x = 1", "x = 1, y = 2"), other, USE)

    fault = fault_of(tmp_path, text)

    assert fault.code == "E193"
    assert "task 'other' sends y, x to queue 'q', and task 'make' sends x, y, at " in fault.message
    assert fault.path == "epoch/other/write.q"


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([MAKE, f"{USE}, needs: [make]"], "task 'use' starts when 'make' has ended, but queue 'q'"),
        ([f"{MAKE}, needs: [use]", USE], "task 'make' starts when 'use' has ended"),
        ([MAKE, "task: x, needs: [make], steps: [y = 1]", f"{USE}, needs: [x]"],
         "task 'use' starts when 'make' has ended"),
        ([MAKE, "task: mid, read: q, steps: [], write: {r: [x]}",
          "task: end, read: r, needs: [make], steps: [y = x]"],
         "task 'end' starts when 'make' has ended, but queues connect them"),
        ([MAKE, USE, "task: twin, read: q, needs: [use], steps: [y = x]"],
         "task 'twin' starts when 'use' has ended"),
    ],
)  # fmt: skip
def test_tasks_that_queues_join_do_not_wait_for_each_others_ends(tmp_path, tasks, message):
    queues = "q: {}, r: {}" if any("r: [x]" in task for task in tasks) else "q: {}"

    fault = fault_of(tmp_path, pipeline(*tasks, queues=queues))

    assert fault.code == "E173"
    assert message in fault.message


def test_a_writer_may_wait_for_another_writer(tmp_path):
    text = pipeline(MAKE, "task: more, needs: [make], steps: [x = 2], write: {q: [x]}", USE)

    assert codes_of(tmp_path, text) == []


def test_whoever_waits_for_the_whole_pipeline_waits_for_its_end(tmp_path):
    text = pipeline(MAKE, USE, "task: after, needs: [use, make], steps: [w = w + 1]")

    assert codes_of(tmp_path, text) == []


def test_two_pipelines_do_not_wait_for_each_other_crosswise(tmp_path):
    text = pipeline(
        "task: a1, needs: [b2], steps: [x = 1], write: {q: [x]}",
        "task: a2, read: q, steps: []",
        "task: b1, needs: [a2], steps: [x = 1], write: {r: [x]}",
        "task: b2, read: r, steps: []",
        queues="q: {}, r: {}",
    )

    fault = fault_of(tmp_path, text)

    assert fault.code == "E173"
    assert "through queues and needs" in fault.message


def test_records_do_not_go_round_in_a_circle(tmp_path):
    text = pipeline(
        "task: one, read: r, steps: [], write: {q: [x]}",
        "task: two, read: q, steps: [], write: {r: [x]}",
        queues="q: {}, r: {}",
    )

    fault = fault_of(tmp_path, text)

    assert fault.code == "E173"
    assert "queues form a cycle: one -> two -> one" in fault.message


def test_a_task_does_not_read_what_it_writes(tmp_path):
    fault = fault_of(tmp_path, pipeline("task: t, read: q, steps: [], write: {q: [x]}"))

    assert fault.code == "E173"
    assert "task 't' reads from queue 'q', and writes to it" in fault.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (pipeline(MAKE, MAKE.replace("make", "also"), USE, queues="q: {ordered: true}"),
         "task 'make' also writes to it"),
        (pipeline(f"{MAKE}, node: '*'", f"{USE}, node: b", more=NODES,
                  queues="q: {ordered: true, shared: true}"), "from 2 nodes"),
    ],
)  # fmt: skip
def test_the_records_of_an_ordered_queue_have_one_order(tmp_path, text, message):
    fault = fault_of(tmp_path, text)

    assert fault.code == "E124"
    assert message in fault.message
    assert "queue 'q' is ordered" in fault.message


@pytest.mark.parametrize("end", [0, 1])
def test_on_error_warn_is_refused_within_a_pipeline(tmp_path, end):
    tasks = [MAKE, USE]
    tasks[end] += ", on_error: warn"

    fault = fault_of(tmp_path, pipeline(*tasks))

    assert fault.code == "E122"
    assert "uses queue 'q'" in fault.message


def test_a_stop_in_a_task_that_reads_leaves_the_record_and_one_by_name_the_task(tmp_path):
    use = "task: use, read: q, steps: [{stop_if: x > 1}, {if: x > 2, then: [{stop: task}]}]"
    steps = task_of(job_of(tmp_path, pipeline(MAKE, use)), "use").steps

    targets = [step.target for step in walk(steps) if isinstance(step, Stop)]
    assert targets == ["epoch/use/record", "epoch/use"]


def test_what_is_sent_must_have_been_made_on_every_way_that_is_not_a_stop(tmp_path):
    good = "task: make, steps: [{stop_if: w > 1}, x = 1], write: {q: [x]}"
    bad = "task: make, steps: [{if: w > 1, then: [x = 1]}], write: {q: [x]}"

    assert codes_of(tmp_path, pipeline(good, USE)) == []
    fault = fault_of(tmp_path, pipeline(bad, USE))
    assert (fault.code, fault.path) == ("E181", "epoch/make/write.q")


def test_what_a_record_brings_is_gone_when_there_was_none(tmp_path):
    fault = fault_of(tmp_path, pipeline(MAKE, f"{USE}, outputs: [y]"))

    assert fault.code == "E181"


def test_a_field_that_would_overwrite_state_from_several_instances_is_a_race(tmp_path):
    make = "task: make, steps: [v = 1], write: {q: [v]}"
    init = "init: [{task: start, steps: [v = 0]}]\n"
    text = pipeline(
        make.replace("steps: [v = 1]", "hogwild: true, steps: [v = 1]"),
        "task: use, read: q, instances: 2, steps: []",
        more=init,
    )

    assert "E178" in codes_of(tmp_path, text)


def by_hand(sent: tuple[str, ...] = ("x",), read: tuple[str, ...] = ("x",), **more):
    queue = Queue("q", 3)
    make = jobrun.Task(
        "make", "local", jobrun.steps("x = 1", "z = 2"), write=(WriteQueue(queue, sent),)
    )
    use = jobrun.Task(
        "use", "local", jobrun.steps("w = w + 1"), read=ReadQueue(queue, read), **more
    )
    start = jobrun.Task("start", "local", jobrun.steps("w = 0"))
    return jobrun.Job(
        "piped",
        jobrun.Cluster((jobrun.Node("local"),)),
        jobrun.TaskGroup("init", (start,)),
        jobrun.TaskGroup("epoch", (make, use)),
        stop=(jobrun.StopAfterEpochs(1),),
    )


def test_a_pipeline_built_by_hand_is_completed_like_any_job():
    job = jobrun.prepare(by_hand()).job

    assert [queue.name for queue in job.queues] == ["q"]
    assert dict(job.epoch.tasks[1].scopes).keys() == {"w", "x"}
    assert job.exactness.exact
    assert jobrun.prepare(job).job == job


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (by_hand(read=("z",)), "task 'use' reads z from queue 'q', and task 'make' sends x"),
        (by_hand(needs=("make",)), "task 'use' starts when 'make' has ended"),
        (by_hand(("x", "x"), ("x",)), "'x' would be sent twice"),
        (by_hand(("v",), ("v",)), "unknown blob 'v'"),
    ],
)
def test_a_pipeline_built_by_hand_is_checked_like_a_spec(job, message):
    with pytest.raises(SpecError) as caught:
        jobrun.prepare(job)

    assert message in str(caught.value)


def test_the_plan_shows_queues_with_their_ends(tmp_path):
    job = job_of(tmp_path, pipeline(MAKE, USE, queues="q: {capacity: 5, ordered: true}"))

    assert "  queue make => q (room for 5, ordered) => use\n" in plan_text(job)
    epoch = plan_json(job)["groups"][1]
    (queue,) = epoch["queues"]
    assert (queue["name"], queue["capacity"], queue["ordered"]) == ("q", 5, True)
    assert (queue["names"], queue["writers"], queue["readers"]) == (["x"], ["make"], ["use"])
    make, use = epoch["tasks"]
    assert (make["write"], make["read"], use["read"]) == ({"q": ["x"]}, None, "q")
