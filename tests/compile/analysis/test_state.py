"""What init leaves."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, fault_of, job_of


def test_state_and_constants_are_told_apart_per_node(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {b: {}, a: {count: 2}}
        init:
          - {task: data, node: '*', rebuild: true, steps: [X = zeros(3), n = len(X)]}
          - {task: w, node: a, needs: [data], steps: [w = X, v = n]}
        epoch: [{task: t, node: '*', steps: [y = X]}]
        """,
    )

    assert job.constants == (("b", ("X", "n")), ("a_0", ("X", "n")), ("a_1", ("X", "n")))
    assert job.state == (("a_0", ("v", "w")), ("a_1", ("v", "w")))


@pytest.mark.parametrize(
    "steps",
    ["{if: 1 > 0, then: [x = 1]}", "{loop: 0, steps: [x = 1]}", "x = 1, {if: 1 > 0, then: [del x]}",
     "{stop_if: 1 > 0}, x = 1"],
)  # fmt: skip
def test_state_is_there_whatever_way_init_takes(tmp_path, steps):
    fault = fault_of(tmp_path, f"init: [{{task: i, steps: [w = 1.0, {steps}]}}]")

    assert fault.code == "E179"
    assert "'x'" in fault.message


def test_a_later_task_of_init_may_delete_what_an_earlier_one_made(tmp_path):
    job = job_of(
        tmp_path,
        """\
        init:
          - {task: a, steps: [t = 1.0]}
          - {task: b, needs: [a], steps: [w = t, del t]}
        """,
    )

    assert job.state == (("local", ("w",)),)


def test_a_constant_may_not_be_state_too(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        init:
          - {task: a, rebuild: true, steps: [w = 1.0]}
          - {task: b, needs: [a], steps: [w = 2.0]}
        """,
    )

    assert fault.code == "E175"
    assert "init/a/steps[0]" in fault.message
    assert fault.path == "init/b/steps[0]"


def test_counting_is_writing_too(tmp_path):
    text = """\
        init:
          - {task: a, rebuild: true, steps: [c = counter(0)]}
          - {task: b, needs: [a], steps: [w = 1.0, count_up(c)]}
        """

    assert codes_of(tmp_path, text) == ["E175"]


def test_the_order_of_names_is_not_that_of_a_set(tmp_path):
    names = [f"n{i:02d}" for i in range(40)]
    steps = ", ".join(f"{name} = 1" for name in reversed(names))

    job = job_of(
        tmp_path,
        f"init: [{{task: i, steps: [{steps}]}}]\nepoch: [{{task: t, steps: [x = n00]}}]",
    )

    assert job.state == (("local", tuple(names)),)


def test_what_a_callable_of_a_rebuild_task_makes_may_be_lent_to_be_changed(tmp_path):
    job = job_of(
        tmp_path,
        """\
        init:
          - {task: make, rebuild: true, steps: [{call: "lib:make", out: model}]}
          - {task: warm, needs: [make], steps: [{call: "lib:warm", inout: [model]}, w = 1.0]}
        epoch:
          - {task: train, steps: [{call: "lib:train", inout: [model, w]}]}
        """,
    )

    assert dict(job.constants) == {"local": ("model",)}
    assert dict(job.state) == {"local": ("w",)}
    tasks = [task for group in job.groups for task in group.tasks]
    assert [task.objects for task in tasks] == [(), ("model",), ("model",)]


@pytest.mark.parametrize("made", ["X = zeros(3)", "{call: 'lib:make', out: X}, 'X += 1'"])
def test_what_anything_else_makes_may_not_be_lent(tmp_path, made):
    text = f"""\
        init:
          - {{task: make, rebuild: true, steps: [{made}]}}
          - {{task: other, needs: [make], steps: [{{call: "lib:warm", inout: [X]}}, w = 1.0]}}
        """

    assert codes_of(tmp_path, text) == ["E175"]
