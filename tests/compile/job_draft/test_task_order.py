"""What ``needs`` says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.compile.job_draft.task_order import TaskOrder, sort_topologically
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import SpecError
from jobrun.spec.load import load_spec
from tests.support.compiling import codes_of, fault_of, faults_of, job_of, task_of


@st.composite
def _orders(draw):
    count = draw(st.integers(1, 8))
    needs = [draw(st.sets(st.integers(0, count - 1), max_size=3)) for _ in range(count)]
    # Towards smaller positions only, then shuffled: no cycles.
    places = draw(st.permutations(range(count)))
    shuffled: list[tuple[int, ...]] = [()] * count
    for task, some in enumerate(needs):
        shuffled[places[task]] = tuple(places[need] for need in some if need < task)
    return shuffled


def _ancestors(needs, task):
    ancestors = set()
    waiting = list(needs[task])
    while waiting:
        current = waiting.pop()
        if current not in ancestors:
            ancestors.add(current)
            waiting += needs[current]
    return ancestors


@given(_orders())
def test_before_is_the_transitive_closure_of_needs(needs):
    order = TaskOrder(needs)

    for task in range(len(needs)):
        before = {other for other in range(len(needs)) if order.is_before(other, task)}
        assert before == _ancestors(needs, task)
        everything = (1 << len(needs)) - 1
        concurrent = order.select_concurrent(everything, task)
        assert {other for other in range(len(needs)) if concurrent >> other & 1} == (
            set(range(len(needs))) - before
        )
        after = {other for other in range(len(needs)) if order.is_before(task, other)}
        apart = order.select_unordered(everything, task)
        assert {other for other in range(len(needs)) if apart >> other & 1} == (
            set(range(len(needs))) - before - after - {task}
        )


@given(_orders())
def test_every_task_ranks_after_its_needs(needs):
    rank = TaskOrder(needs).rank

    assert sorted(rank) == list(range(len(needs)))
    assert all(rank[need] < rank[task] for task, some in enumerate(needs) for need in some)


def test_a_cycle_leaves_its_tasks_without_a_place():
    assert sort_topologically([(1,), (0,), ()]) == ([2], [0, 1])


def test_needs_come_to_the_graph_as_names(tmp_path):
    text = "epoch: [{task: a, steps: [x = 1]}, {task: b, needs: [a], steps: [x = 1]}]"

    assert task_of(job_of(tmp_path, text), "b").needs == ("a",)


def test_an_unknown_need_gets_the_nearest_name(tmp_path):
    text = "epoch: [{task: first, steps: [x = 1]}, {task: b, needs: [frist], steps: [x = 1]}]"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E170"
    assert fault.mend == "did you mean 'first'?"
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (5, 58)


def test_a_task_cannot_need_itself(tmp_path):
    assert codes_of(tmp_path, "epoch: [{task: a, needs: [a], steps: [x = 1]}]") == ["E171"]


def test_needs_do_not_reach_into_another_group(tmp_path):
    fault = fault_of(tmp_path, "epoch: [{task: a, needs: [start], steps: [x = 1]}]")

    assert fault.code == "E172"
    assert "'init'" in fault.message


def test_a_cycle_is_shown_as_the_way_round(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        epoch:
          - {task: a, needs: [c], steps: [w = w + 1]}
          - {task: b, needs: [a], steps: [w = w + 1]}
          - {task: c, needs: [b], steps: [w = w + 1]}
        """,
    )

    assert fault.code == "E173"
    assert "a -> c -> b -> a" in fault.message


def test_two_cycles_are_two_faults(tmp_path):
    faults = faults_of(
        tmp_path,
        """\
        epoch:
          - {task: a, needs: [b], steps: [x = 1]}
          - {task: b, needs: [a], steps: [x = 1]}
          - {task: c, needs: [d], steps: [x = 1]}
          - {task: d, needs: [c], steps: [x = 1]}
          - {task: e, needs: [a, d], steps: [x = 1]}
        """,
    )

    assert [fault.code for fault in faults] == ["E173", "E173"]


def test_a_rebuilt_task_needs_rebuilt_ones_only(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        init:
          - {task: a, steps: [w = 1.0]}
          - {task: b, rebuild: true, needs: [a], steps: [x = 1]}
        """,
    )

    assert fault.code == "E140"


def test_row_20_a_cycle_is_printed_with_its_place(tmp_path):
    text = (
        "jobrun: 1\nname: t\ninit: [{task: i, steps: ['x = 0']}]\nepoch:\n"
        "  - {task: a, needs: [c], steps: ['t = 1']}\n"
        "  - {task: b, needs: [a], steps: ['t = 1']}\n"
        "  - {task: c, needs: [b], steps: ['t = 1']}\n"
        "  - {task: d, needs: [d], steps: ['t = 1']}\n"
        "  - {task: e, node: nope, steps: ['t = 1']}\n"
        "stop: [{epochs: 1}]\n"
    )
    path = tmp_path / "t.yaml"
    path.write_text(text)

    with pytest.raises(SpecError) as raised:
        compile_job(load_spec(str(path)))

    reported = [(fault.message, str(fault.where)) for fault in raised.value.faults]
    assert ("circular dependency: a -> c -> b -> a", f"{path}:5:23") in reported
    assert ("task 'd' needs itself", f"{path}:8:23") in reported
    assert ("unknown node 'nope'", f"{path}:9:21") in reported
