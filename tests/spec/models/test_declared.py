from __future__ import annotations

import pytest
from pydantic import ValidationError

from jobrun.spec.models.job import JobSpec, ParamSpec
from jobrun.spec.models.optional_parts import PartitionSpec


def test_state_is_declared_in_two_ways():
    spec = JobSpec.model_validate(
        {"jobrun": 1, "name": "j", "state": {"U": {"partition": "rows"}, "V": "replicated"}}
    )

    assert spec.state == {"U": PartitionSpec(partition="rows"), "V": "replicated"}


@pytest.mark.parametrize("value", ["rows", {"partition": "columns"}, {}, 3, ["replicated"]])
def test_no_other_declaration_is_taken(value):
    with pytest.raises(ValidationError):
        JobSpec.model_validate({"jobrun": 1, "name": "j", "state": {"U": value}})


def test_a_param_is_not_safe_by_itself():
    assert ParamSpec(default=3).drift is None
