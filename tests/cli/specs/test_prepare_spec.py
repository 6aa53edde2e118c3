"""From the words of a command line to a compiled job."""

from __future__ import annotations

import pytest

from jobrun.cli.specs.prepare_spec import override_texts, prepare
from jobrun.core.errors import SpecError
from tests.support.walk_spec import SPEC


def test_a_spec_becomes_a_job(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC)
    prepared = prepare(str(tmp_path / "walk.yaml"), (), ("params.rate=0.125",))
    assert prepared.job.name == "walk"
    assert dict(prepared.job.params)["rate"] == 0.125
    assert prepared.warnings == ()


def test_what_does_not_compile_is_a_spec_error(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC.replace("total + sum(x)", "total + sum(y)"))
    with pytest.raises(SpecError, match="'y'"):
        prepare(str(tmp_path / "walk.yaml"))


def test_options_are_found_by_the_name_that_places_give_them():
    assert override_texts(["a=1", "b=2"]) == {"--set #1": "a=1", "--set #2": "b=2"}
