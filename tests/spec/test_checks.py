from jobrun.spec.load import MOST_NODES, check_nodes
from jobrun.spec.models.job import JobSpec
from jobrun.spec.yaml.document import read_document
from jobrun.spec.yaml.nodes import SourceMap, plain


def _faults(nodes):
    root = read_document(f"jobrun: 1\nname: a\nnodes:\n{nodes}", "job.yaml").root
    return check_nodes(JobSpec.model_validate(plain(root)), SourceMap(root))


def test_distinct_names_pass():
    assert _faults("  a: {}\n  b: {count: 3}\n  b_3: {}\n") == []


def test_names_that_differ_in_case_collide_at_the_second():
    (fault,) = _faults("  node: {}\n  NODE: {}\n")

    assert (fault.code, str(fault.where)) == ("E032", "job.yaml:5:3")
    assert "'NODE'" in fault.message
    assert "'node'" in fault.message


def test_members_of_a_counted_node_collide():
    (fault,) = _faults("  w: {count: 2}\n  w_1: {}\n")

    assert fault.message == "two nodes have the name 'w_1'"


def test_a_family_that_collides_is_told_once():
    assert len(_faults("  w: {count: 50}\n  W: {count: 50}\n")) == 1


def test_as_many_nodes_as_allowed_pass():
    assert _faults(f"  w: {{count: {MOST_NODES}}}\n") == []


def test_one_node_more_does_not():
    (fault,) = _faults(f"  w: {{count: {MOST_NODES}}}\n  x: {{}}\n")

    assert (fault.code, fault.path) == ("E033", "nodes")
