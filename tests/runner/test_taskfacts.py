from __future__ import annotations

from jobrun.core.events import TaskFacts
from jobrun.runner.invocation import MOST_TASKS, task_facts
from tests.support.compiling import job_of

SPEC = """
jobrun: 1
name: two
nodes: {a: {count: 2}}
init: [{task: i, node: a, steps: ["x = 1.0"]}]
epoch:
  - {task: s, node: a, steps: ["y = 1.0"]}
  - {task: t, node: a, needs: [s], steps: ["x += 1"]}
stop: [epochs: 1]
"""


def test_task_facts_have_group_node_and_needs(tmp_path):
    described = [
        (facts.group, facts.task, facts.node) for facts in task_facts(job_of(tmp_path, SPEC))
    ]

    assert described == [
        ("init", "i", "a_0"),
        ("init", "i", "a_1"),
        ("epoch", "s", "a_0"),
        ("epoch", "s", "a_1"),
        ("epoch", "t", "a_0"),
        ("epoch", "t", "a_1"),
    ]
    assert task_facts(job_of(tmp_path, SPEC))[-1] == TaskFacts("epoch", "t", "a_1", ("s",))


def test_task_facts_are_omitted_for_very_many_tasks(tmp_path):
    tasks = "".join(f"  - {{task: t{n}, steps: ['y{n} = 1']}}\n" for n in range(MOST_TASKS))
    spec = f"jobrun: 1\nname: many\ninit: [{{task: i, steps: ['x = 1']}}]\nepoch:\n{tasks}"

    assert task_facts(job_of(tmp_path, spec + "stop: [epochs: 1]\n")) == ()
