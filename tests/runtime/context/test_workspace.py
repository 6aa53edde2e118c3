from __future__ import annotations

import pytest

from jobrun.graph.types import Scope
from jobrun.runtime.context.frame import LEVELS, Blobs, MissingBlobError, display_name


def test_a_missing_blob_is_named():
    with pytest.raises(MissingBlobError) as caught:
        Blobs(a=1)["b"]

    assert caught.value.name == "b"


def test_a_blob_can_be_dropped_once():
    blobs = Blobs(a=1)

    blobs.drop("a")

    assert dict(blobs) == {}
    with pytest.raises(MissingBlobError):
        blobs.drop("a")


def test_every_scope_has_a_workspace():
    assert set(LEVELS) == set(Scope)


def test_a_parameter_of_a_net_is_shown_by_its_own_name():
    assert display_name("epoch/t/steps[1]:a") == "a"
    assert display_name("a") == "a"
