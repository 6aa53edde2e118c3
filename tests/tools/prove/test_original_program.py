"""How two files differ, and where the original program runs."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from jobrun.core.errors import ProofError
from jobrun.tools.isolation.isolation import Isolator
from jobrun.tools.prove.file_difference import describe_file_difference
from jobrun.tools.prove.original_program import Original, run_original


def written(path, value):
    match path.suffix:
        case ".npy":
            np.save(path, value)
        case ".npz":
            np.savez(path, **value)
        case ".h5":
            with h5py.File(path, "w") as file:
                for name, array in value.items():
                    file[name] = array
        case _:
            path.write_text(value)
    return path


@pytest.mark.parametrize(
    ("name", "expected", "actual", "words"),
    [
        ("a.npy", np.arange(4.0), np.arange(4.0), ""),
        ("a.npy", np.zeros((2, 3)), np.zeros((2, 3), order="F"), ""),
        ("a.npy", np.arange(4.0), np.arange(4.0, dtype="f4"), "it is float32 array of shape (4,), "
         "not float64 array of shape (4,)"),
        ("a.npy", np.zeros(4), np.zeros((4, 1)), "it is float64 array of shape (4, 1), not float64 "
         "array of shape (4,)"),
        ("a.npy", np.zeros(3), np.array([0.0, -0.0, 0.0]), "[1]: it is -0.0, not 0.0"),
        ("a.npz", {"x": np.ones(2)}, {"x": np.ones(2)}, ""),
        ("a.npz", {"x": 1, "y": 2}, {"x": 1}, "it has no 'y'"),
        ("a.npz", {"x": 1}, {"x": 1, "y": 2}, "it has 'y', and should not"),
        ("a.h5", {"g/x": np.arange(3)}, {"g/x": np.array([0, 1, 3])}, "/g/x[2]: it is 3, not 2"),
        ("a.csv", "a,b\n1,2.50\n", "a,b\n1,2.5\n", ""),
        ("a.csv", "a,b\n1,2.5\n", "a,b\n1,2.25\n", "b[0]: it is 2.25, not 2.5"),
        ("a.csv", "a,b\n1,x\n", "a,b\n1,y\n", "b[0]: it is y, not x"),
        ("a.txt", "one", "one", ""),
        ("a.txt", "one", "once", "its bytes differ from byte 2 on; it has 4 bytes, not 3"),
    ],
)  # fmt: skip
def test_files_are_compared_by_value_type_shape_and_bits(tmp_path, name, expected, actual, words):
    ours, theirs = (tmp_path / side / name for side in ("ours", "theirs"))
    ours.parent.mkdir()
    theirs.parent.mkdir()

    assert describe_file_difference(written(ours, expected), written(theirs, actual)) == words


def test_the_original_program_sees_what_is_there_but_for_what_it_writes(tmp_path):
    here = tmp_path / "here"
    (here / "out").mkdir(parents=True)
    (here / "out" / "kept.txt").write_text("kept")
    (here / "out" / "a.json").write_text("before")
    original = Original(
        "test ! -e out/a.json && cp $(ls -d out/kept.txt) k && python -c 'import json, os; "
        'json.dump(os.environ["OMP_NUM_THREADS"], open("out/a.json", "w"))\'',
        ("out/a.json",),
        here,
        here,
        threads=3,
    )

    written = run_original(original, isolation_of(tmp_path, here), tmp_path / "output", {})

    assert json.loads(written["out/a.json"].read_text()) == "3"
    assert (here / "out" / "a.json").read_text() == "before"
    assert not Path(here, "k").exists()


def isolation_of(scratch, here):
    (scratch / "scratch").mkdir()
    return Isolator((here,), here, scratch).open(scratch / "scratch")


def test_an_original_program_that_writes_elsewhere_is_reported(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    original = Original("true", ("a.npy",), here, here)

    with pytest.raises(ProofError, match=r"E482.*'true' has not written 'a.npy'"):
        run_original(original, isolation_of(tmp_path, here), tmp_path / "output", {})


def test_an_original_program_cannot_write_outside_of_its_copy(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    original = Original(f"echo x > {here}/a.npy", ("a.npy",), here, here)

    with pytest.raises(ProofError, match=r"E481.*Permission denied"):
        run_original(original, isolation_of(tmp_path, here), tmp_path / "output", {})
    assert not (here / "a.npy").exists()
