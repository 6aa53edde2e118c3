from __future__ import annotations

from jobrun.compile.analyse_groups import names_of, sort_by_node
from jobrun.compile.analysis.state import KeptNames
from jobrun.graph.types import Cluster, Node
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


def test_names_of_a_node_are_state_and_constants():
    kept = {"a": KeptNames(("w",), ("X",)), "b": KeptNames()}
    assert names_of(kept) == {"a": frozenset({"w", "X"}), "b": frozenset()}


def test_names_come_in_the_order_of_the_nodes_without_empty_ones():
    cluster = Cluster((Node("b"), Node("a"), Node("c")))
    assert sort_by_node(cluster, {"a": ("x",), "b": ("y",), "c": ()}) == (
        ("b", ("y",)),
        ("a", ("x",)),
    )


def test_state_is_kept_only_where_it_is_checkpointed(tmp_path):
    job = job_of(tmp_path, SPEC)
    assert job.state == (("a", ("w",)),)
    assert job.constants == (("a", ("X",)),)
