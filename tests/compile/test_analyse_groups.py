from __future__ import annotations

from tests.support.compiling import job_of

SPEC = """
nodes: {a: {}, b: {}}
init:
  - {task: data, node: a, rebuild: true, steps: [X = ones(3)]}
  - {task: start, node: a, steps: [w = 0]}
  - {task: other, node: b, steps: [v = 0]}
epoch:
  - {task: t, node: a, steps: [w += sum(X)]}
exit:
  - {task: e, node: a, steps: [last = w]}
checkpoint: {nodes: [a]}
"""


def test_state_is_kept_only_where_it_is_checkpointed(tmp_path):
    job = job_of(tmp_path, SPEC)
    assert job.state == (("a", ("w",)),)
    assert job.constants == (("a", ("X",)),)
