import pytest
from pydantic import ValidationError

from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.readers import QueueSpec


def _job(**spec):
    return JobSpec.model_validate({"jobrun": 1, "name": "a", **spec})


def test_a_part_whose_model_is_deferred_is_of_that_model():
    assert _job(queues={"q": {"capacity": 3}}).queues == {"q": QueueSpec(capacity=3)}


def test_errors_in_a_deferred_model_are_at_their_places_in_the_whole():
    with pytest.raises(ValidationError) as caught:
        _job(queues={"q": {"capacity": 0, "shred": 1}, "r": 3})

    assert [one["loc"] for one in caught.value.errors()] == [
        ("queues", "q", "capacity"),
        ("queues", "q", "shred"),
        ("queues", "r"),
    ]


def test_a_deferred_model_is_dumped_with_its_keys():
    spec = _job(readers={"r": {"call": "a:B", "with": {"n": 3}}})

    assert spec.model_dump(by_alias=True)["readers"]["r"]["with"] == {"n": 3}
