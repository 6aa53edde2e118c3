"""Cases about set-up around a node, a task and each of its instances."""

from __future__ import annotations

from collections import Counter

_BLOCKS = """
init: [{task: start, steps: [w = 1]}]
epoch:
  - task: A
    COUNT
    setup:
      instance: {exit: [{log: A instance exit}], init: [{log: A instance init}]}
      task: {exit: [{log: A task exit}], init: [{log: A task init}]}
      node: {exit: [{log: group exit}], init: [{log: group init}]}
    steps: [{log: A body}, {log: A body again}]
stop: [{epochs: 1}]
"""


def test_case_014_setup_order_single(stage):
    """Same: from the node inwards and back, wherever the blocks stand in the text."""
    job = stage(_BLOCKS.replace("COUNT", "instances: 1"))

    job.run("init", "epoch")

    assert job.messages == [
        "group init",
        "A task init",
        "A instance init",
        "A body",
        "A body again",
        "A instance exit",
        "A task exit",
        "group exit",
    ]


def test_case_015_setup_order_instances(stage):
    """Same: a task's set-up runs once, an instance's in each, the node's around all tasks."""
    text = _BLOCKS.replace("COUNT", "instances: 3").replace(", {log: A body again}", "")
    _, _, first = text.partition("epoch:\n")
    second = first.partition("stop:")[0].replace("A", "B")
    job = stage(text.replace("stop:", f"{second}stop:"))

    job.run("init", "epoch")

    messages = job.messages
    assert Counter(messages) == {
        "group init": 2,
        "group exit": 2,
        **{f"{task} task {part}": 1 for task in "AB" for part in ("init", "exit")},
        **{f"{task} instance {part}": 3 for task in "AB" for part in ("init", "exit")},
        "A body": 3,
        "B body": 3,
    }
    assert messages[:2] == ["group init"] * 2
    assert messages[-2:] == ["group exit"] * 2
    for task in "AB":
        task_lines = [line.removeprefix(f"{task} ") for line in messages if line.startswith(task)]
        assert (task_lines[0], task_lines[-1]) == ("task init", "task exit")
        for number in range(1, 4):
            # No instance leaves before it came, however they overlap.
            assert _reached(task_lines, "instance init", number) < _reached(
                task_lines, "body", number
            )
            assert _reached(task_lines, "body", number) < _reached(
                task_lines, "instance exit", number
            )


def _reached(lines: list[str], line: str, number: int) -> int:
    """Return the index of the n-th occurrence of a line."""
    return [index for index, candidate in enumerate(lines) if candidate == line][number - 1]


_SHARED = """
nets:
  counted:
    setup: {LEVEL: {init: [{log: init}], exit: [{log: exit}]}}
    steps: []
  a: [{net: counted}, {log: a}]
  b: [{net: counted}, {log: b}]
init: [{task: start, steps: [w = 1]}]
epoch: TASKS
stop: [{epochs: 2}]
"""
_TWO_TASKS = "[{task: one, steps: [{net: a}]}, {task: two, needs: [one], steps: [{net: b}]}]"


def test_case_017_setupnets_two_nets_one_task(stage):
    """Same: set-up that two nets of a task bring along runs once in each run of the group."""
    job = stage(
        _SHARED.replace("LEVEL", "task").replace(
            "TASKS", "[{task: one, steps: [{net: a}, {net: b}]}]"
        )
    )
    job.run("init")

    job.run("epoch", epoch=1)
    assert job.messages == ["init", "a", "b", "exit"]
    job.run("epoch", epoch=2)
    assert job.messages == ["init", "a", "b", "exit"] * 2


def test_case_018_setupnets_two_tasks(stage):
    """By rule 5: at the task's level each task that uses the net has its set-up run."""
    job = stage(_SHARED.replace("LEVEL", "task").replace("TASKS", _TWO_TASKS))

    job.run("init", "epoch")

    assert job.messages == ["init", "a", "exit", "init", "b", "exit"]


def test_case_018_setupnets_two_tasks_around_the_node(stage):
    """Same: at the node's level it runs once, before all tasks and after them."""
    job = stage(_SHARED.replace("LEVEL", "node").replace("TASKS", _TWO_TASKS))

    job.run("init", "epoch")

    assert job.messages == ["init", "a", "b", "exit"]


def test_case_021_setup_test_values(stage):
    """Same: the body sees what inits made, and exits see what the body left."""
    job = stage("""
        init: [{task: start, steps: [w = 1]}]
        epoch:
          - task: t
            setup: {task: {init: [one = 1, three = 3], exit: [seven_1 = accum + one]}}
            steps:
              - two = one + one
              - accum = two + three
              - six = accum + one
              - accum += one
              - seven_2 = accum + one
            outputs: [six, seven_1, seven_2]
        stop: [{epochs: 1}]
    """)

    assert job.run("init", "epoch") == {"t.six": 6, "t.seven_1": 7, "t.seven_2": 7}
