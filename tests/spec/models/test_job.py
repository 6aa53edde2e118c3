import pickle

import pytest
from pydantic import ValidationError

from jobrun.spec.models.job import (
    MOST_NODES,
    CheckpointSpec,
    JobSpec,
    ParamSpec,
    StopSpec,
    check_nodes,
)
from jobrun.spec.models.optional_parts import GroupSpec, OverNodes
from jobrun.spec.models.readers import READER_SOURCES, ReaderSpec
from jobrun.spec.yaml.nodes import SourceMap, plain
from jobrun.spec.yaml.parse import read_document
from tests.support.tables import each_case


def _job(**spec):
    return JobSpec.model_validate({"jobrun": 1, "name": "example"} | spec)


def _errors(**spec):
    with pytest.raises(ValidationError) as caught:
        _job(**spec)
    return [error["type"] for error in caught.value.errors()]


def test_a_name_is_enough():
    job = _job()

    assert (job.seed, job.blas_threads, job.init, job.stop) == (0, 1, (), ())
    assert job.checkpoint == CheckpointSpec()


def test_models_are_frozen_and_compare_by_value():
    assert _job(seed=3) == _job(seed=3)
    with pytest.raises(ValidationError):
        _job().seed = 4


def test_models_cross_processes():
    job = _job(epoch=[{"task": "t", "steps": [{"if": "a", "then": ["b = 1"]}]}])

    assert pickle.loads(pickle.dumps(job)) == job


def test_a_group_is_a_list_of_tasks_or_a_mapping():
    assert _job(init=[{"task": "t"}]).init[0].task == "t"
    assert isinstance(_job(init={"tasks": [{"task": "t"}]}).init, GroupSpec)


def test_a_param_is_a_value_or_a_mapping():
    params = _job(params={"a": 1, "b": {"default": "x", "drift": "safe"}}).params

    assert params["a"] == ParamSpec(default=1)
    assert params["b"].drift == "safe"


@pytest.mark.parametrize("value", [[1], None])
def test_a_param_is_nothing_else(value):
    assert _errors(params={"a": value}) in (["scalar"], ["no_value"])


@each_case("source", READER_SOURCES)
def test_a_reader_has_one_source(source):
    values = {"blobs": {"x": "X"}, "counter": {"stop": 3}, "zip": ["a", "b"]}

    assert ReaderSpec.model_validate({source: values.get(source, "a.npz")})


@pytest.mark.parametrize("reader", [{}, {"batch": 3}, {"npz": "a", "npy": "b"}])
def test_a_reader_has_no_more_and_no_less_than_one(reader):
    assert _errors(readers={"r": reader}) == ["one_key"]


@pytest.mark.parametrize("stop", [{}, {"epochs": 1, "time": "1h"}])
def test_a_stop_condition_has_one_key(stop):
    assert _errors(stop=[stop]) == ["one_key"]


def test_a_stop_condition_may_look_over_nodes():
    stop = StopSpec.model_validate({"when": {"of": "x < 1", "nodes": "a_*", "reduce": "all"}})

    assert isinstance(stop.when, OverNodes)


@pytest.mark.parametrize(
    "spec",
    [{"stop": [{"epochs": None}]}, {"margin": None}, {"nodes": {"a": {"host": None}}},
     {"checkpoint": {"dir": None}}, {"init": [{"task": "t", "node": None}]}],
)  # fmt: skip
def test_a_key_that_may_be_left_out_may_not_be_empty(spec):
    assert _errors(**spec) == ["no_value"]


@pytest.mark.parametrize("spec", [{"steps": None}, {"seed": None}, {"init": None}])
def test_an_empty_key_is_an_error(spec):
    assert len(_errors(**spec)) == 1


@pytest.mark.parametrize("version", [2, "1", True, None, 1.0])
def test_the_version_is_one(version):
    kinds = _errors(jobrun=version)

    assert kinds in (["version"], ["int_type"])


@pytest.mark.parametrize("value", [False, 1, "true"])
def test_endless_is_said_by_true_alone(value):
    assert _errors(stop=[{"endless": value}]) == ["literal_error"]


def test_a_checkpoint_is_none_or_a_mapping():
    assert _job(checkpoint="none").checkpoint == "none"
    assert _job(checkpoint={"every": "5ep"}).checkpoint.every.amount == 5
    assert _errors(checkpoint="never") == ["literal_error"]
    assert _errors(checkpoint=["none"]) == ["union_tag_invalid"]


def test_a_rotation_keeps_at_least_two():
    assert _errors(checkpoint={"keep": {"last": 1}}) == ["greater_than_equal"]


def test_unknown_keys_are_errors_at_every_level():
    assert _errors(stp=1) == ["extra_forbidden"]
    assert _errors(epoch=[{"task": "t", "stesp": []}]) == ["extra_forbidden"]
    assert _errors(checkpoint={"keep": {"lst": 3}}) == ["extra_forbidden"]


def test_field_names_of_python_are_no_keys():
    assert _errors(checkpoint={"asynchronous": True}) == ["extra_forbidden"]
    assert _job(checkpoint={"async": True}).checkpoint.asynchronous is True


def _node_faults(nodes):
    root = read_document(f"jobrun: 1\nname: a\nnodes:\n{nodes}", "job.yaml").root
    return check_nodes(JobSpec.model_validate(plain(root)), SourceMap(root))


def test_distinct_names_pass():
    assert _node_faults("  a: {}\n  b: {count: 3}\n  b_3: {}\n") == []


def test_names_that_differ_in_case_collide_at_the_second():
    (fault,) = _node_faults("  node: {}\n  NODE: {}\n")

    assert (fault.code, str(fault.where)) == ("E032", "job.yaml:5:3")
    assert "'NODE'" in fault.message
    assert "'node'" in fault.message


def test_members_of_a_counted_node_collide():
    (fault,) = _node_faults("  w: {count: 2}\n  w_1: {}\n")

    assert fault.message == "two nodes have the name 'w_1'"


def test_a_colliding_family_is_reported_once():
    assert len(_node_faults("  w: {count: 50}\n  W: {count: 50}\n")) == 1


def test_as_many_nodes_as_allowed_pass():
    assert _node_faults(f"  w: {{count: {MOST_NODES}}}\n") == []


def test_one_node_more_does_not():
    (fault,) = _node_faults(f"  w: {{count: {MOST_NODES}}}\n  x: {{}}\n")

    assert (fault.code, fault.path) == ("E033", "nodes")
