from __future__ import annotations

from collections import Counter, OrderedDict, namedtuple
from decimal import Decimal

import numpy as np

from jobrun.values.copies import detach
from jobrun.values.kinds import counter as atomic_counter
from jobrun.values.structure_digest import digest_structure
from tests.support.tables import each_case

Point = namedtuple("Point", "x y")
ARRAY = np.zeros(2)
LOOP = [1]
LOOP.append(LOOP)
SAME = [["a"]] * 2


@each_case(
    ("first", "second"),
    [
        ([1, 2], (1, 2)), ([1, 2], [2, 1]), ([1, 2], [1, 2.0]), ([0.0], [-0.0]), ([1], [True]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": 1}, {1: 1}), ({"1": 1}, {1: 1}),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}), ({"a": 1}, OrderedDict(a=1)),
        (Counter(a=1), OrderedDict(a=1)), (Point(1, 2), (1, 2)), (["a"], [b"a"]), ([], ()),
        ([None], []), ([["a"]], ["a"]), ([[], "a"], [["a"]]), (["a", ["b"]], ["a", "b"]),
        ([ARRAY, ARRAY], [ARRAY, ARRAY.copy()]), ([ARRAY], [ARRAY.reshape(2, 1)]),
        ([ARRAY], [np.zeros(2, ">f8")]), (SAME, [["a"], ["a"]]), ([{1, 2}], [frozenset()]),
        ([Decimal(1)], [{1}]), ([atomic_counter.Counter(1)], [atomic_counter.Counter(2)]),
        ([np.float32(1)], [np.float64(1)]), ([7**9000], [7**9001]),
    ],
)  # fmt: skip
def test_containers_that_differ_have_other_digests(first, second):
    assert digest_structure(first) != digest_structure(second)


@each_case(
    "value",
    [[1, "a", {"x": (ARRAY, None)}], SAME, LOOP, Point([1.5], {2: b"\0"}), {1.5: "\ud800"}, [{3}]],
)
def test_copy_of_a_container_has_its_digest(value):
    copy = value if value is LOOP else detach(value)

    assert digest_structure(copy) == digest_structure(value)
