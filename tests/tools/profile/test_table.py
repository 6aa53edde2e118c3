from __future__ import annotations

from jobrun.runtime.codegen.meter_protocol import BlockTime, Owner, StepTime
from jobrun.tools.profile.table import InstanceRow, NodeRow, OperatorRow, build_table, parents


def _step(path, calls=1, seconds=1.0, *, estimated=False):
    return StepTime(path, 7, calls, seconds, estimated)


def _block(path, *steps, task="t", node="n", instance=0, runs=1, seconds=10.0):
    return BlockTime(Owner("epoch", node, task, instance), path, runs, seconds, steps, ())


def test_a_step_stands_in_the_longest_path_around_it():
    paths = ["e/t/steps[1]", "e/t/steps[10]", "e/t/steps[1].steps[0]", "e/t/steps[1][0].steps[2]"]
    assert parents(paths) == {
        "e/t/steps[1]": "",
        "e/t/steps[10]": "",
        "e/t/steps[1].steps[0]": "e/t/steps[1]",
        "e/t/steps[1][0].steps[2]": "e/t/steps[1]",
    }


def test_steps_of_all_instances_are_added_up_and_the_longest_comes_first():
    one = _block("epoch/t", _step("s[0]", 2, 1.0), _step("s[1]", 2, 3.0, estimated=True))
    two = _block("epoch/t", _step("s[0]", 1, 0.5), _step("s[1]", 1, 1.0), instance=1)

    slow, fast = build_table([one, two], {"s[1]": "matmul"}).steps

    assert (slow.path, slow.label, slow.calls, slow.seconds) == ("s[1]", "matmul", 3, 4.0)
    assert slow.estimated
    assert (fast.path, fast.label, fast.calls, fast.seconds) == ("s[0]", "", 3, 1.5)
    assert not fast.estimated


def test_a_loops_total_has_its_steps_in_it():
    block = _block("epoch/t", _step("s[0]", 1, 0.5), _step("s[0].steps[0]", 9, 2.0))

    loop = next(row for row in build_table([block], {}).steps if row.path == "s[0]")

    assert (loop.seconds, loop.total_s) == (0.5, 2.5)


def test_what_branches_take_is_not_the_parallels_own():
    body = _block("epoch/t", _step("s[0]", 1, 3.0))
    branches = [_block(f"s[0][{i}]", _step(f"s[0][{i}].steps[0]", 1, 2.5)) for i in range(2)]

    whole = next(row for row in build_table([body, *branches], {}).steps if row.path == "s[0]")

    assert (whole.seconds, whole.total_s) == (0.0, 3.0)


def test_operators_are_added_up_by_what_they_do():
    block = _block("epoch/t", _step("a", 2, 1.0), _step("b", 3, 1.0), _step("c", 1, 5.0))

    found = build_table([block], {"a": "+", "b": "+", "c": "@"}).operators

    assert found == (OperatorRow("@", 1, 5.0), OperatorRow("+", 5, 2.0))


def test_instances_have_body_setup_and_reports_and_nodes_all_of_them():
    blocks = [
        _block("epoch/t", runs=3, seconds=4.0),
        _block("epoch/t/setup.task.init", seconds=1.0),
        _block("epoch/t/report[0]", seconds=0.5),
        _block("epoch/t/steps[0][1]", seconds=2.0),
        _block("epoch/t", instance=1, runs=3, seconds=1.0),
        _block("epoch/setup.init", task="", node="m", seconds=0.25),
    ]

    found = build_table(blocks, {})

    assert found.instances == (
        InstanceRow("epoch", "n", "t", 0, 3, 4.0, 1.0, 0.5),
        InstanceRow("epoch", "n", "t", 1, 3, 1.0, 0.0, 0.0),
        InstanceRow("epoch", "m", "", 0, 0, 0.0, 0.25, 0.0),
    )
    assert found.nodes == (NodeRow("n", 6.5), NodeRow("m", 0.25))
