"""What plan says of state agrees with what a run makes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.compile.types.job_types import infer_job_types
from jobrun.graph.types import Job
from jobrun.ops.abstract_values import Known
from jobrun.spec.load import load_spec

HEAD = "jobrun: 1\nname: t\nparams: {k: 4}\nstop: [{epochs: 2}]\n"


@pytest.fixture
def shapes(tmp_path: Path):
    def of(init: list[object], epoch: list[object], more: str = "") -> dict[str, Known]:
        job = _job(tmp_path, init, epoch, more)
        owned = infer_job_types(
            job, lambda path, member: {"d.npz": ("<f4", (9, 3))}.get(path)
        ).owned
        return {name: known for (_, name), known in owned.items()}

    return of


def _job(folder: Path, init: list[object], epoch: list[object], more: str) -> Job:
    path = folder / "t.yaml"
    tasks = {"init": init, "epoch": epoch}
    groups = [f"{name}: [{{task: {name}, steps: {json.dumps(tasks[name])}}}]" for name in tasks]
    path.write_text(HEAD + "\n".join([*groups, more, ""]))
    return compile_job(load_spec(str(path))).job


def test_state_of_init_is_known(shapes) -> None:
    types = shapes(["w = zeros((k, 3), dtype=float32)", "n = 0", "e = inf"], ["w += 1"])

    assert types["w"] == Known("float32", (4, 3))
    assert (types["n"].dtype, types["e"].dtype) == ("int64", "float64")


def test_a_loaded_member_has_the_shape_of_its_header(shapes) -> None:
    types = shapes([{"load": {"X": "d.npz::x"}}, "c = X[0]"], ["c = c * 2"])

    assert types["X"] == Known("float32", (9, 3))
    assert types["c"] == Known("float32", (3,))


def test_a_blob_that_changes_shape_is_unknown_there(shapes) -> None:
    types = shapes(["w = zeros(k)"], ["w = concatenate((w, w))"])

    assert types["w"].shape == (None,)


def test_a_dtype_that_an_epoch_changes_is_unknown(shapes) -> None:
    types = shapes(["w = zeros(k, dtype=float32)"], ["w = zeros(4)"])

    assert (types["w"].dtype, types["w"].shape) == (None, (4,))


def test_branches_keep_what_they_agree_on(shapes) -> None:
    then, otherwise = ["w = zeros((2, 3))"], ["w = zeros((2, 5))"]
    branches = {"if": "rng.random() > 0.5", "then": then, "else": otherwise}

    assert shapes([branches], ["v = w"])["w"] == Known("float64", (2, None))


def test_several_results_of_segment_sum_are_known(shapes) -> None:
    step = "s, n = segment_sum(ones((6, 2)), arange(6), num_segments=k)"

    types = shapes([step], ["s = s"])

    assert (types["s"], types["n"]) == (Known("float64", (4, 2)), Known("int64", (4,)))


def test_a_scalar_augmented_by_a_float_becomes_one(shapes) -> None:
    assert shapes(["n = 0", "n += 0.5"], ["n = n"])["n"].dtype == "float64"


def test_guards_and_loops_are_followed(shapes) -> None:
    loop = {"loop": 3, "steps": ["t = t @ t"]}
    guard = {"guard": "left", "steps": [{"stop_if": "t[0, 0] > 1"}]}

    types = shapes(["t = eye(3)", loop, guard], ["t = t.T"])

    assert types["t"] == Known("float64", (3, 3))
    assert types["left"].dtype == "bool"


def test_inferred_types_agree_with_a_run(tmp_path: Path) -> None:
    steps = ["X = rng.normal(size=(5, 2))", "i = argmin(X, axis=0)", "m = mean(X, axis=0)",
             "z = where(X > 0, 1, X)", "s = X[1:3, None]"]  # fmt: skip
    job = _job(tmp_path, [*steps], ["X = X"], "")

    types = infer_job_types(job, lambda path, member: None).owned

    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 2))
    for name, value in {
        "X": x,
        "i": np.argmin(x, axis=0),
        "m": x.mean(axis=0),
        "z": np.where(x > 0, 1, x),
        "s": x[1:3, None],
    }.items():
        assert types["local", name] == Known(value.dtype.name, value.shape)
