from __future__ import annotations

from jobrun.tools.comparing.states import states_apart
from jobrun.tools.inspection import inspect
from tests.support.some_runs import make_run


def test_each_blob_of_either_is_told(tmp_path):
    first, second = (inspect(f"{make_run(tmp_path).path}@{epoch}", tmp_path) for epoch in (1, 2))

    (blob,) = states_apart(first, second)

    assert (blob.node, blob.name) == ("local", "x")
    assert blob.apart.largest == 2.0


def test_a_blob_that_one_side_lacks_is_told_in_words(tmp_path):
    path = make_run(tmp_path).path
    whole, empty = inspect(str(path), tmp_path), inspect(str(path), tmp_path)
    object.__setattr__(empty, "files", ())

    assert states_apart(whole, empty)[0].apart.words == "Python float | not there"
    assert states_apart(empty, whole)[0].apart.words == "not there | Python float"
