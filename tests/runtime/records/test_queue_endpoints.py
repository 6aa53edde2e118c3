from __future__ import annotations

import threading
from queue import SimpleQueue

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Logged
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import TaskGroup
from jobrun.runtime.codegen.liveness import GroupUsage, find_moved_names
from jobrun.runtime.group_plan import plan_group
from jobrun.runtime.records.queue_endpoints import (
    QueuePlan,
    join_records,
    plan_queues,
)
from jobrun.session.base import GroupCancelledError, RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec
from jobrun.testing.graphs import task
from jobrun.values.compare import same_bits
from tests.support.compiling import spec_text, task_of
from tests.support.pipelines import within
from tests.support.thinning import thinned


@pytest.fixture
def run(tmp_path):
    """Runs init and one epoch of a spec; its outputs by name, and what was logged."""

    def run_text(text: str) -> tuple[dict, list[str]]:
        path = tmp_path / "job.yaml"
        path.write_text(spec_text(text))
        job = compile_job(load_spec(str(path))).job
        logged: list[str] = []
        session = ThreadsSession()

        def hear(event: object) -> None:
            if isinstance(event, Logged):
                logged.append(event.text)

        session.open(job.cluster, RunContext(job.seed, str(tmp_path), str(tmp_path), hear))
        try:
            session.run(job.init, 0, {})
            outputs_by_ref = within(30.0, lambda: session.run(job.epoch, 1, {}))
        finally:
            session.close()
        return {str(ref): value for ref, value in outputs_by_ref.items()}, logged

    return run_text


def test_a_line_knows_how_many_tasks_are_at_its_ends():
    q, shared = Queue("q"), Queue("s", shared=True)
    send = (WriteQueue(q, ("x",)), WriteQueue(shared, ("x",)))
    tasks = [task("a", node=node, write=send, instances=5) for node in ("n0", "n1")]
    tasks.append(task("b", node="n0", read=ReadQueue(q, ("x",))))

    plans = plan_queues(TaskGroup("epoch", tuple(tasks)))

    assert plans == (
        QueuePlan(("q", "n0"), q, 1, 1),
        QueuePlan(("s", ""), shared, 2, 0),
        QueuePlan(("q", "n1"), q, 1, 0),
    )


def test_values_keep_their_kinds(run):
    created = ["a = 1.5", "b = float32(2)", "c = ones((2, 3), dtype=float32).T", "d = 'text'",
            "e = array(3)", "f = True"]  # fmt: skip
    outputs, _ = run(f"""\
        queues: {{q: {{}}}}
        epoch:
          - {{task: make, steps: {created!r}, write: {{q: [a, b, c, d, e, f]}}}}
          - task: use
            read: q
            setup: {{task: {{init: [A = 0, B = 0, C = 0, D = 0, E = 0, F = 0]}}}}
            steps: [A = a, B = b, C = c, D = d, E = e, F = f]
            outputs: [A, B, C, D, E, F]
        """)

    expected = [1.5, np.float32(2), np.ones((2, 3), np.float32).T, "text", np.array(3), True]
    for name, value in zip("ABCDEF", expected, strict=True):
        assert same_bits(outputs[f"use.{name}"], value), name
    assert outputs["use.C"].flags.f_contiguous


BODIES = {
    "a value of its own": ["x = ones(3) * n", "y = 2 * x"],
    "another name of it": ["x = ones(3) * n", "y = x"],
    "what came before": ["y = old", "x = ones(3) * n", "old = x"],
    "a part of it": ["x = ones(3) * n", "y = x[1:]"],
    "the record that was read": ["x = n", "y = ones(1)"],
    "a part of state": ["x = table[1:3]", "y = table"],
    "changed in place later": ["x += n", "y = x"],
    "made in a branch": ["{if: n > 2, then: [x = ones(2)], else: [x = zeros(2)]}", "y = x + 1"],
    "swapped": ["x = ones(2) * n", "y = zeros(2)", "x, y = y, x"],
    "made by a net": ["{net: double}", "y = x"],
}


SENDING = """\
readers: {{numbers: {{counter: {{stop: 6}}, fields: [n]}}}}
queues: {{q: {{capacity: {capacity}}}}}
nets: {{double: ["x = 2.0 * ones(3) * n"]}}
init: [{{task: start, steps: [table = arange(5.0)]}}]
epoch:
  - task: make
    read: numbers
    setup: {{task: {{init: [x = ones(3), old = zeros(3), "sent = zeros((0, 2))"]}}}}
    steps: [{body}, "sent = concatenate([sent, [[sum(x), sum(y)]]])"]
    write: {{q: {both}}}
    outputs: [sent, {{table: table}}]
  - task: use
    read: q
    setup: {{task: {{init: ["got = zeros((0, 1))"]}}}}
    steps: {use}
    outputs: [got]
"""


def sending(body: str, both: str, use: list[str], capacity: int = 1) -> str:
    steps = ", ".join(text if text.startswith("{") else f'"{text}"' for text in BODIES[body])
    return SENDING.format(capacity=capacity, body=steps, both=both, use=use)


@pytest.mark.parametrize("both", thinned(["[x, y]", "[y, x]", "[x]", "[y]"], 4))
@pytest.mark.parametrize("body", BODIES)
def test_a_sender_does_not_see_changes_by_the_receiver(run, body, both):
    spoil = [f"{name} *= -7" for name in both.strip("[]").split(", ")]

    apart, _ = run(sending(body, both, []))
    concurrent, _ = run(sending(body, both, spoil))

    assert {name: value.tobytes() for name, value in concurrent.items()} == {
        name: value.tobytes() for name, value in apart.items()
    }


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("body", BODIES)
def test_a_receiver_gets_the_sent_values_though_the_sender_is_far_ahead(run, body, name):
    keep = [f"got = concatenate([got, [[sum({name})]]])"]

    outputs, _ = run(sending(body, f"[{name}]", keep, capacity=100))

    assert np.array_equal(outputs["use.got"][:, 0], outputs["make.sent"][:, "xy".index(name)])


def test_a_moved_array_is_removed_from_the_senders_workspace(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        spec_text("""\
        queues: {q: {}}
        epoch:
          - {task: make, steps: [x = 1.0 * ones(2)], write: {q: [x]}}
          - {task: use, read: q, steps: [x *= 2]}
        """)
    )
    job = compile_job(load_spec(str(path))).job
    make = task_of(job, "make")

    assert find_moved_names(make, GroupUsage(job.epoch).task_block(make, make.steps)) == {"x"}
    assert plan_group(job.epoch).queues[0].writers == 1


def test_each_node_has_a_line_of_its_own(run):
    outputs, _ = run("""\
        nodes: {n: {count: 3}}
        queues: {q: {}}
        init: [{task: start, node: n, steps: [w = 0]}]
        epoch:
          - {task: make, node: n, steps: [x = node.index], write: {q: [x]}}
          - {task: use, node: n, read: q, setup: {task: {init: [seen = -1]}}, steps: [seen = x],
             outputs: [seen]}
        """)

    assert list(outputs.values()) == [2]


def test_a_shared_queue_is_closed_by_the_last_node(run):
    _, logged = run(
        """\
        nodes: {n: {count: 3}}
        queues: {q: {shared: true, capacity: 1}}
        init: [{task: start, node: n, steps: [w = 0]}]
        epoch:
          - {task: make, node: n, instances: 4, steps: [x = 1 + node.index], write: {q: [x]}}
          - task: use
            node: n_1
            read: q
            setup: {task: {init: [total = 0], exit: [log: "{total}"]}}
            steps: [total = total + x]
        """.replace('[log: "{total}"]', "[{log: '{total}'}]")
    )

    assert logged == ["24"]


def test_records_are_joined_along_their_first_axis(run):
    _, logged = run("""\
        readers: {numbers: {counter: {stop: 7}, fields: [n]}}
        queues: {q: {capacity: 2, batch: 3}}
        epoch:
          - {task: make, read: numbers, steps: ["x = n * ones((n, 2))"], write: {q: [n, x]}}
          - {task: use, read: q, steps: [{log: "{n} {x.shape[0]}"}]}
        """)

    assert logged == ["[0 1 2] 3", "[3 4 5] 12", "[6] 6"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2), np.array([1, 2])),
        ((1.5,), np.array([1.5])),
        ((np.float32(1), np.float32(2)), np.array([1, 2], np.float32)),
        ((np.array(1.5), np.array(2.5)), np.array([1.5, 2.5])),
        ((np.ones((1, 2)), np.zeros((2, 2))), np.array([[1.0, 1], [0, 0], [0, 0]])),
        (("a", "bcd"), np.array(["a", "bcd"])),
        ((True, False), np.array([True, False])),
    ],
)
def test_what_joined_records_hold(values, expected):
    (outputs_by_ref,) = join_records(
        tuple((value,) for value in values), ReadQueue(Queue("q"), ("x",))
    )

    assert same_bits(outputs_by_ref, expected)


@pytest.mark.parametrize(
    "values",
    [
        (1, 2.5), (np.ones(2), 1.0), (np.ones((1, 2)), np.ones((1, 3))), (True, 1),
        (np.ones(2), np.ones(2, np.float32)), ("a", 1), (2**70, 2**70),
    ],
)  # fmt: skip
def test_records_that_do_not_fit_together_are_refused(values):
    with pytest.raises(TaskFailedError) as caught:
        join_records(tuple((value,) for value in values), ReadQueue(Queue("q"), ("x",)))

    assert caught.value.faults[0].code == "E221"
    assert "'x' is" in caught.value.faults[0].message


def test_a_fault_in_joining_says_where(run):
    with pytest.raises(TaskFailedError) as caught:
        run("""\
            readers: {numbers: {counter: {stop: 7}, fields: [n]}}
            queues: {q: {batch: 3}}
            epoch:
              - {task: make, read: numbers, steps: ["x = ones((1, n))"], write: {q: [x]}}
              - {task: use, read: q, steps: [y = x]}
            """)

    (fault,) = caught.value.faults
    assert (fault.code, fault.path) == ("E221", "epoch/use/read")
    assert "task use, node local, epoch 1" in fault.message


def test_instances_that_read_nothing_send_in_their_order(run):
    _, logged = run("""\
        queues: {q: {ordered: true, capacity: 2}}
        epoch:
          - {task: make, instances: 9, steps: [x = instance], write: {q: [x]}}
          - {task: use, read: q, steps: [{log: "{x}"}]}
        """)

    assert logged == list("012345678")


def test_a_stop_sends_nothing_and_one_of_the_task_ends_all_its_instances(run):
    _, logged = run("""\
        readers: {numbers: {counter: {}, fields: [n]}}
        queues: {q: {ordered: true, capacity: 3}, r: {ordered: true}}
        epoch:
          - {task: make, read: numbers, steps: [{stop_if: n % 2 == 0}], write: {q: [n]}}
          - task: mid
            read: q
            instances: 4
            steps: [{if: n == 21, then: [{stop: task}]}]
            write: {r: [n]}
          - {task: use, read: r, steps: [{log: "{n}"}]}
        """)

    before = [str(n) for n in range(1, 21, 2)]
    assert logged[: len(before)] == before
    assert set(logged[len(before) :]) <= {"23", "25", "27"}


def test_a_writer_to_two_queues_runs_while_either_has_a_reader(run):
    _, logged = run("""\
        readers: {numbers: {counter: {stop: 50}, fields: [n]}}
        queues: {q: {capacity: 1}, r: {capacity: 1}}
        epoch:
          - {task: make, read: numbers, write: {q: [n], r: [n]}}
          - {task: few, read: q, steps: [{if: n == 3, then: [{stop: task}]}]}
          - {task: all, read: r, setup: {task: {init: [k = 0], exit: [{log: "{k}"}]}},
             steps: [k = k + 1]}
        """)

    assert logged == ["50"]


def test_exits_run_when_the_reader_ends_first(run):
    _, logged = run("""\
        readers: {numbers: {counter: {}, fields: [n]}}
        queues: {q: {capacity: 1}}
        epoch:
          - {task: make, read: numbers, write: {q: [n]}, setup: {task: {exit: [{log: made}]}}}
          - {task: use, read: q, steps: [{if: n == 3, then: [{stop: task}]}],
             setup: {task: {exit: [{log: used}]}}}
        """)

    assert sorted(logged) == ["made", "used"]


@pytest.mark.parametrize("end", ["make", "mid", "use"])
def test_a_stage_that_fails_ends_the_others_with_its_error(run, end):
    fails = {
        name: "{assert: n != 5, message: here}" if name == end else "m = 1"
        for name in ("make", "mid", "use")
    }
    with pytest.raises(TaskFailedError, match="here") as caught:
        run(f"""\
            readers: {{numbers: {{counter: {{}}, fields: [n]}}}}
            queues: {{q: {{capacity: 1}}, r: {{capacity: 1}}}}
            epoch:
              - {{task: make, read: numbers, steps: [{fails["make"]}], write: {{q: [n]}}}}
              - {{task: mid, read: q, instances: 3, steps: [{fails["mid"]}], write: {{r: [n]}}}}
              - {{task: use, read: r, steps: [{fails["use"]}]}}
            """)

    assert [fault.path for fault in caught.value.faults] == [f"epoch/{end}/steps[0]"]


def test_a_time_limit_ends_a_task_that_waits_for_records(run):
    with pytest.raises(TaskFailedError, match="longer than its limit"):
        run("""\
            readers: {slow: {counter: {}, fields: [n], delay: 3600s}}
            queues: {q: {}}
            epoch:
              - {task: make, read: slow, write: {q: [n]}}
              - {task: use, read: q, steps: [y = n], timeout: 200ms}
            """)


def test_a_task_that_only_passes_records_on_needs_no_steps(run):
    _, logged = run("""\
        readers: {numbers: {counter: {stop: 3}, fields: [n]}}
        queues: {q: {}}
        epoch:
          - {task: make, read: numbers, write: {q: [n]}}
          - {task: use, read: q, steps: [{log: "{n}"}]}
        """)

    assert logged == ["0", "1", "2"]


def test_a_stop_request_wakes_all_waiting_tasks_and_exits_run(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        spec_text("""\
        readers: {slow: {counter: {}, fields: [n], delay: 3600s}}
        queues: {q: {}, r: {batch: 5}}
        epoch:
          - {task: make, read: slow, write: {q: [n]}, setup: {task: {exit: [{log: made}]}}}
          - {task: mid, read: q, instances: 3, write: {r: [n]}}
          - {task: use, read: r, instances: 2, setup: {task: {exit: [{log: used}]}}}
        """)
    )
    job = compile_job(load_spec(str(path))).job
    logged: SimpleQueue[str] = SimpleQueue()
    session = ThreadsSession()
    context = RunContext(
        0, str(tmp_path), str(tmp_path), lambda value: logged.put(getattr(value, "text", ""))
    )
    session.open(job.cluster, context)
    session.run(job.init, 0, {})
    threading.Timer(0.1, session.request_stop).start()

    with pytest.raises(GroupCancelledError):
        within(30.0, lambda: session.run(job.epoch, 1, {}))

    session.close()
    assert {logged.get() for _ in range(logged.qsize())} >= {"made", "used"}
