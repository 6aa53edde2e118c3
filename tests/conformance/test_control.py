"""Cases about loops, branches, stops and guards."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, fault_of

_HEAD = """
init: [{task: start, steps: [other = 0]}]
stop: [{epochs: 1}]
epoch:
  - task: t
"""


def _task(indented: str) -> str:
    return _HEAD + indented


def test_case_046_loop_stop_if_guard(stage):
    """Same: a guard tells whether it was stopped; a count that a loop changes is read again."""
    job = stage(
        _task("""
    steps:
      - y = 0
      - left = 5
      - {while: left > 0, steps: [left = left - 1, y = y + 1]}
      - x = 10
      - {guard: at_10, steps: [{stop_if: x < 5}]}
      - x = 3
      - {guard: at_3, steps: [{stop_if: x < 5}]}
      - {guard: empty, steps: []}
      - {guard: nostop, steps: [z = 0]}
    outputs: [y, at_10, at_3, empty, nostop]
    """)
    )

    assert job.run("init", "epoch") == {
        "t.y": 5,
        "t.at_10": False,
        "t.at_3": True,
        "t.empty": False,
        "t.nostop": False,
    }


@pytest.mark.parametrize(("x", "y"), [(75, 2), (25, 3)])
def test_case_046_loop_stop_if_guard_around_branches(stage, x, y):
    """By design: a branch is no block, so a stop in one leaves the guard around it."""
    job = stage(
        _task(f"""
    steps:
      - x = {x}
      - y = 1
      - {{if: x > 50, then: [y = 2]}}
      - {{guard: left, steps: [{{if: x < 50, then: [y = 3, stop, y = 4]}}]}}
    outputs: [y, left]
    """)
    )

    assert job.run("init", "epoch") == {"t.y": y, "t.left": x < 50}


def test_case_047_nested_loops_blob_count(stage):
    """Same: the inner count is the outer pass number, and the bands take every value once."""
    job = stage(
        _task("""
    setup: {task: {init: [large = 0, small = 0, tiny = 0, total = 0]}}
    steps:
      - loop: 10
        as: i
        steps:
          - base = i * 10
          - loop: i
            as: j
            steps:
              - value = base + j
              - if: value >= 80
                then: [large += value]
                elif: [{if: value >= 50, then: [small += value]}]
                else: [tiny += value]
              - total += value
    outputs: [large, small, tiny, total]
    """)
    )

    assert job.run("init", "epoch") == {
        "t.large": 1514,
        "t.small": 1146,
        "t.tiny": 310,
        "t.total": 2970,
    }


def test_case_049_loop_iter_rerun_reset(stage):
    """Same: a loop inside another counts from 0 each time it is entered."""
    job = stage(
        _task("""
    steps:
      - {loop: 2, as: i, steps: [{loop: 3, as: j, steps: [{log: "{i} {j}"}]}]}
    """)
    )

    job.run("init", "epoch")

    assert job.messages == ["0 0", "0 1", "0 2", "1 0", "1 1", "1 2"]


_STOPPING = """
    setup: {task: {init: [x = 0], exit: [{log: exit}]}}
    steps: BODY
    outputs: [x]
"""
_PASS = "[x = x + 1, {log: a}, {stop_if: x >= 4}, {log: b}]"


def test_case_052_stop_in_task_body_repeats(stage):
    """By rule 12: a stop condition in a plain body leaves it early, and never repeats it."""
    job = stage(_task(_STOPPING.replace("BODY", _PASS)))

    assert job.run("init", "epoch") == {"t.x": 1}
    assert job.messages == ["a", "b", "exit"]


def test_case_052_stop_in_task_body_repeats_when_a_loop_says_so(stage):
    """Same: what was observed, of a body that says that it is to be repeated."""
    job = stage(_task(_STOPPING.replace("BODY", f"[{{loop: forever, steps: {_PASS}}}]")))

    assert job.run("init", "epoch") == {"t.x": 4}
    assert " ".join(job.messages) == "a b a b a b a exit"


_FLAGGED = {
    "true at the start": ("[flag = True, {log: a}, {stop_if: flag}, {log: b}]", "a"),
    "false all along": ("[flag = False, {log: a}, {stop_if: flag}, {log: b}]", "a b"),
    "set by the first": (
        "[flag = False, {log: a}, flag = True, {stop_if: flag}, {log: b}]", "a",
    ),
    "no condition": ("[{log: a}, {log: b}]", "a b"),
}  # fmt: skip


@pytest.mark.parametrize("which", _FLAGGED)
def test_case_054_should_stop_blob_semantics(stage, which):
    """By design: a stop condition is evaluated at its step, and a block runs once by itself."""
    steps, messages = _FLAGGED[which]
    job = stage(_task(f"    steps: [{{guard: stopped, steps: {steps}}}]\n"))

    job.run("init", "epoch")

    assert " ".join(job.messages) == messages


def test_case_054_should_stop_blob_semantics_of_concurrent_steps(stage):
    """Same: all branches end before the condition is looked at, and there is one pass."""
    job = stage(
        _task("""
    steps:
      - flag = False
      - loop: forever
        steps:
          - parallel: [[{log: a}, flag = True], [{log: b}]]
          - {stop_if: flag}
    """)
    )

    job.run("init", "epoch")

    assert sorted(job.messages) == ["a", "b"]


def test_case_054_should_stop_blob_semantics_that_are_refused(tmp_path):
    """By design: an unset flag is an error, as are a count and a condition at once."""
    unset = "epoch: [{task: t, steps: [{stop_if: flag}]}]\n"
    both = "epoch: [{task: t, steps: [{loop: 3, while: w < 3, steps: [w = w + 1]}]}]\n"

    assert codes_of(tmp_path, unset) == ["E180"]
    assert codes_of(tmp_path, both) != []


def test_case_056_net_used_twice(stage):
    """Same: a net that is used twice runs twice."""
    job = stage("""
        nets: {more: [total = total + 1]}
        init: [{task: start, steps: [total = 0]}]
        epoch: [{task: t, steps: [{net: more}, {net: more}]}]
        stop: [{epochs: 1}]
    """)

    job.run("init", "epoch")

    assert job.value("total") == 2


_BRANCHES = """
    steps:
      - x0, x1, x2 = 0, 1, 2
      - y0, y1, y2 = 0, 1, 2
      - {if: x0 < x1, then: [first = 1], else: [first = 2]}
      - {if: x1 < x0, then: [second = 1], else: [second = 2]}
      - if: x0 < x1
        then:
          - own = 900
          - y0 = 100 + own
          - {if: x1 > x2, then: [], else: [own = y1 + own, y1 = 100 + y1]}
          - {if: own == 901, then: [y2 = 7, y2 = y1 + y2]}
        else: []
    outputs: [first, second, y0, y1, y2OUTER]
"""


def test_case_058_if_net_scopes(stage):
    """Same: branches inside branches, empty ones, and writes to blobs from outside."""
    job = stage(_task(_BRANCHES.replace("OUTER", "")))

    assert job.run("init", "epoch") == {
        "t.first": 1,
        "t.second": 2,
        "t.y0": 1000,
        "t.y1": 101,
        "t.y2": 108,
    }


def test_case_058_if_net_scopes_end_with_the_branch(tmp_path):
    """Same: a blob that only a branch makes cannot be relied on outside."""
    fault = fault_of(tmp_path, _task(_BRANCHES.replace("OUTER", ", own")))

    assert "'own'" in fault.message


@pytest.mark.parametrize(("limit", "x", "y"), [(7, 7, 21), (0, 1, 0)])
def test_case_059_while_net(stage, limit, x, y):
    """Same: what the condition needs is computed before each pass, once more than there are."""
    job = stage(
        _task(f"""
    steps:
      - x = 0
      - y = 0
      - {{loop: forever, steps: [x = x + 1, {{stop_if: not x < {limit}}}, y = x + y]}}
    outputs: [x, y]
    """)
    )

    assert job.run("init", "epoch") == {"t.x": x, "t.y": y}
