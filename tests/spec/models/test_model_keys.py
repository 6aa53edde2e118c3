import pytest
from pydantic import ValidationError

from jobrun.spec.models.control_flow import LoopStep
from jobrun.spec.models.job import JobSpec, StopSpec
from jobrun.spec.models.model_keys import field_of, keys_of
from jobrun.spec.models.readers import ReaderSpec
from jobrun.spec.models.tasks import TaskSpec
from jobrun.spec.models.validation_errors import Located, locate


def _located(**spec):
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate({"jobrun": 1, "name": "a"} | spec)
    (error,) = caught.value.errors()
    return locate(JobSpec, error["loc"])


def test_tags_of_steps_are_in_no_file():
    steps = [{"if": "a", "then": [{"loop": 3, "steps": [], "stps": 1}]}]

    located = _located(epoch={"tasks": [{"task": "t", "steps": steps}]})

    path = ("epoch", "tasks", 0, "steps", 0, "then", 0, "stps")
    assert located == Located(path, is_key=False, model=LoopStep)


def test_a_tag_that_equals_a_key_is_distinguished_from_it():
    located = _located(epoch=[{"task": "t", "steps": [{"loop": {}, "steps": []}]}])

    assert located.path == ("epoch", 0, "steps", 0, "loop")


def test_tags_of_short_and_long_forms_are_in_no_file():
    assert _located(init={"tasks": 3}).path == ("init", "tasks")
    assert _located(init=[3]).path == ("init", 0)
    assert _located(checkpoint={"every": 3}).path == ("checkpoint", "every")
    assert _located(checkpoint="some").path == ("checkpoint",)


def test_faults_of_keys_are_distinguished_from_those_of_values():
    assert _located(nets={"a b": []}) == Located(("nets", "a b"), is_key=True, model=None)


def test_branches_are_lists_of_lists():
    steps = [{"parallel": [["a = 1"], [3]]}]

    path = _located(epoch=[{"task": "t", "steps": steps}]).path

    assert path == ("epoch", 0, "steps", 0, "parallel", 1, 0)


def test_keys_are_those_of_the_yaml():
    assert keys_of(StopSpec) == (
        "data_finished",
        "endless",
        "epochs",
        "no_improvement",
        "time",
        "when",
    )
    assert "with" in keys_of(ReaderSpec)
    assert "arguments" not in keys_of(ReaderSpec)


def test_a_field_is_found_by_its_key():
    assert field_of(TaskSpec, "needs").description.startswith("tasks")
    assert field_of(ReaderSpec, "arguments") is None


def test_an_unknown_location_keeps_its_segments():
    assert locate(JobSpec, ("params", "k", "default", "x", 0)).path[-1] == 0
