from __future__ import annotations

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import same_bits
from jobrun.runtime.workspace import Blobs
from jobrun.session.snapshot import put_aside, put_back


def test_what_may_change_in_place_is_copied_and_the_rest_is_shared():
    big, small = np.arange(4.0), np.zeros(2)
    workspaces = {"a": Blobs(big=big, small=small)}

    put_aside(workspaces, {"a": {"small"}})

    assert workspaces["a"]["big"] is big
    assert workspaces["a"]["small"] is not small


def test_each_attempt_starts_from_the_same_bits_in_a_value_of_the_same_form():
    first = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    workspaces = {"a": Blobs(x=first, n=Counter(3))}
    kept = put_aside(workspaces, {"a": {"x", "n"}})
    forms = []
    for _ in range(3):
        x = workspaces["a"]["x"]
        forms.append((x.strides, x.tobytes(), workspaces["a"]["n"].value))
        x[...] = -1
        workspaces["a"]["n"].value = 0
        workspaces["a"]["more"] = 1

        put_back(kept, workspaces)

    assert forms == [(first.strides, first.tobytes(), 3)] * 3
    assert set(workspaces["a"]) == {"x", "n"}


def test_names_that_were_deleted_or_bound_anew_come_back():
    workspaces = {"a": Blobs(x=1.5, y="text"), "b": Blobs()}
    kept = put_aside(workspaces, {})
    del workspaces["a"]["x"]
    workspaces["a"]["y"] = 2
    workspaces["b"]["z"] = 3

    put_back(kept, workspaces)

    assert same_bits(workspaces["a"]["x"], 1.5)
    assert workspaces == {"a": {"x": 1.5, "y": "text"}, "b": {}}
