"""A kind of values is described once: a class in ``kinds``, and its name in the table."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.runtime.snapshots.kept_references import find_kept
from jobrun.values import traversal
from jobrun.values.container_flattening import unbound_classes
from jobrun.values.kinds import Kind, known_kinds
from jobrun.values.kinds.record import UnboundRecord, note_unbound
from jobrun.values.shared_parts import find_common_part, mutable_parts


class Pair:
    def __init__(self, first, second):
        self.first = first
        self.second = second


class PairKind(Kind):
    @staticmethod
    def matches(value_class):
        return value_class is Pair

    def parts(self, value):
        return vars(value).items()

    def is_mutable(self, value):
        return True


@pytest.fixture
def _pairs(monkeypatch):
    monkeypatch.setattr(traversal, "KINDS", [PairKind, *traversal.KINDS])
    known_kinds.pop(Pair, None)
    yield
    known_kinds.pop(Pair, None)


@pytest.mark.usefixtures("_pairs")
def test_walks_look_into_values_of_a_new_kind():
    array = np.zeros(3)
    pair = Pair([1], {"a": array})

    assert [*map(type, mutable_parts([pair]).values())] == [list, Pair, list, dict, np.ndarray]
    assert find_common_part([pair], [array]) == (("0", "second", "a"), ("0",))
    assert ("0", "second", "a") in [path for path, _ in find_kept([pair], is_kept=False)]
    gone = note_unbound(UnboundRecord("gone:Record", "tuple", {}))
    assert unbound_classes([Pair(1, gone)]) == ["gone:Record"]


def test_values_of_no_kind_have_no_known_parts():
    assert [*map(type, mutable_parts([Pair([1], 2)]).values())] == [list]
