"""Cases about steps that run beside tasks, at intervals and once more."""

from __future__ import annotations

from collections import Counter

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Event, TaskEnded
from tests.support.compiling import fault_of
from tests.support.conformance import Stage

_HEAD = """
init: [{task: start, steps: [other = 0]}]
stop: [{epochs: 1}]
"""


def test_case_026_report_step_at_least_once(stage):
    """Same: once after the body, without waiting for the end of the interval, here an hour."""
    job = stage(
        _HEAD
        + """
epoch:
  tasks: [{task: t, steps: [{log: body}]}]
  report: [{every: 1h, steps: [{log: report}]}]
"""
    )

    job.run("init", "epoch")

    assert job.messages == ["body", "report"]


_ALL_BLOCKS = (
    _HEAD
    + """
epoch:
  - task: t
    instances: COUNT
    setup:
      node: {exit: [{log: node exit}]}
      task: {init: [{log: task init}], exit: [{log: task exit}]}
      instance: {init: [{log: init}], exit: [{log: exit}]}
    steps: [{log: body}]
    report: [{every: 1h, steps: [{log: report}]}]
"""
)


def test_case_028_task_reporter_order(stage):
    """Same: after the body, and before any exit."""
    job = stage(_ALL_BLOCKS.replace("COUNT", "1"))

    job.run("init", "epoch")

    assert job.messages == ["task init", "init", "body", "report", "exit", "task exit", "node exit"]


def test_case_028_task_reporter_order_with_instances(stage):
    """Same: each instance has reports of its own."""
    job = stage(_ALL_BLOCKS.replace("COUNT", "3"))

    job.run("init", "epoch")

    assert Counter(job.messages) == {
        "task init": 1,
        "init": 3,
        "body": 3,
        "report": 3,
        "exit": 3,
        "task exit": 1,
        "node exit": 1,
    }
    assert job.messages[-2:] == ["task exit", "node exit"]


def test_case_031_report_on_node_without_tasks(tmp_path):
    """By rule 10: the node of a report is looked at before anything runs."""
    fault = fault_of(
        tmp_path,
        """
        nodes: {n1: {}, n2: {}}
        init: [{task: start, node: "*", steps: [w = 1]}]
        epoch:
          tasks: [{task: t, node: n1, steps: [w += 1]}]
          report: [{node: n2, steps: [{log: report}]}]
    """,
    )

    assert fault.code == "E169"
    assert "'n2'" in fault.message


def test_case_032_report_step_failing(stage):
    """By rule 8: the error is raised, and what runs beside it ends at its next step."""
    job = stage(
        _HEAD
        + """
epoch:
  tasks: [{task: t, steps: [{while: other == 0, steps: [x = 1]}, {log: body end}]}]
  report: [{every: 1ms, steps: [{call: "library:fail", with: {text: "'broken'"}}]}]
"""
    )

    with pytest.raises(TaskFailedError, match="ValueError: broken"):
        job.run("init", "epoch")

    assert job.messages == []


class _Telling(Stage):
    """Makes the file ``over`` when a task has ended."""

    def listen(self, event: Event) -> None:
        super().listen(event)
        if isinstance(event, TaskEnded) and event.task == "t":
            (self.folder / "run" / "over").touch()


def test_case_111_report_running_when_tasks_end(tmp_path):
    """By rule 10: if one is in progress when the tasks end, another one starts after it."""
    job = _Telling(
        tmp_path,
        _HEAD
        + """
epoch:
  workspace: global
  tasks:
    - task: t
      steps: ["begun = '${run.dir}/begun'", {call: "library:wait_for", with: {path: begun}}]
  report:
    - every: 1ms
      steps:
        - "begun = '${run.dir}/begun'"
        - "over = '${run.dir}/over'"
        - {log: report begins}
        - {call: "library:touch", with: {path: begun}}
        - {call: "library:wait_for", with: {path: over}}
        - {log: report ends}
""",
    )

    job.run("init", "epoch")
    job.session.close()

    lines = [
        "ended" if isinstance(event, TaskEnded) else getattr(event, "text", "")
        for event in job.events
    ]
    begun = [index for index, line in enumerate(lines) if line == "report begins"]
    # The task of init ended first. Between the two an interval may have passed once more.
    ended = lines.index("ended", lines.index("ended") + 1)
    assert begun[0] < ended < begun[1]
    assert job.messages == ["report begins", "report ends"] * len(begun)


_FAILING = (
    _HEAD
    + """
epoch:
  REPORT
  tasks: [{task: t, steps: [{log: before}, {call: "library:fail", with: {text: "'broken'"}}]}]
"""
)


@pytest.mark.parametrize(
    ("report", "messages"), [("", ["before"]), ("report: [{every: 1h, steps: [{log: report}]}]",
                                            ["before", "report"])],
)  # fmt: skip
def test_case_113_report_step_changes_failure_mode(stage, report, messages):
    """By rule 7: with a report beside it or without, a failure is the same error."""
    job = stage(_FAILING.replace("REPORT", report))

    with pytest.raises(TaskFailedError, match="ValueError: broken") as caught:
        job.run("init", "epoch")

    assert [fault.path for fault in caught.value.faults] == ["epoch/t/steps[1]"]
    assert job.messages == messages


@pytest.mark.parametrize("where", ["task", "group"])
def test_last_report_after_a_failure_sees_failed(stage, where):
    report = 'report: [{every: 1h, steps: [{log: "failed: {failed}"}]}]'
    task = "task: t, steps: [{assert: epoch != 2}]"
    whole = {
        "task": f"epoch: [{{{task}, {report}}}]\n",
        "group": f"epoch:\n  tasks: [{{{task}}}]\n  {report}\n",
    }
    job = stage(_HEAD + whole[where])
    job.run("init", "epoch")

    with pytest.raises(TaskFailedError):
        job.run("epoch", epoch=2)

    assert job.messages == ["failed: False", "failed: True"]


@pytest.mark.parametrize("owner", ["state", "task"])
def test_blob_named_failed_is_what_a_report_reads(stage, owner):
    texts = {
        "state": ("failed = 7", ""),
        "task": ("other = 0", "setup: {task: {init: [failed = 7]}}, "),
    }
    state, setup = texts[owner]
    job = stage(f"""
init: [{{task: start, steps: [{state}]}}]
stop: [{{epochs: 1}}]
epoch:
  - {{task: t, {setup}steps: [y = 1], report: [{{every: 1h, steps: [{{log: "{{failed}}"}}]}}]}}
""")

    job.run("init", "epoch")

    assert job.messages == ["7"]
