"""The example with a real text: what it finds, what of it is the same each time, and a resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import SPECS, jobrun

SPEC = SPECS / "word-vectors.yaml"
ALONE = ("    instances: 2\n    hogwild: true\n", "")


def _ran(folder: Path, *arguments: str | Path, spec: Path = SPEC) -> Path:
    done = jobrun("run", spec, "--resume", "never", "-q", *arguments, cwd=folder, started=True)
    assert done.returncode in {0, 75}, done.stderr
    return next((folder / "runs" / "word-vectors").glob("2*"))


def _vectors(run: Path) -> np.ndarray:
    with np.load(run / "artifacts" / "vectors.npz") as file:
        return file["U"]


def _alone(folder: Path) -> Path:
    """The spec with one instance that learns, and the data beside it."""
    folder.mkdir()
    text = SPEC.read_text()
    assert ALONE[0] in text
    text = text.replace(*ALONE).replace("data/alice.csv", str(SPECS / "data" / "alice.csv"))
    path = folder / "word-vectors.yaml"
    path.write_text(text)
    return path


def test_hogwild_is_the_one_reason_why_it_is_not_exact(tmp_path):
    shared = json.loads(jobrun("validate", SPEC, "--format", "json").stdout)["specs"]
    alone = jobrun("validate", _alone(tmp_path / "a"), "--format", "json").stdout

    assert [entry["exact"] for entry in shared] == [False]
    assert [load["exact"] for load in json.loads(alone)["specs"]] == [True]


@pytest.mark.long
def test_words_get_vectors_that_tell_pairs_of_the_book_from_others(tmp_path):
    run = _ran(tmp_path, "--epochs", "3")
    vectors = _vectors(run)
    losses = [
        json.loads(line)["value"]
        for line in (run / "metrics.jsonl").read_text().splitlines()
        if '"Measured"' in line
    ]

    assert vectors.shape == (697, 32)
    assert np.isfinite(vectors).all()
    # Six guesses of one in two each, before anything is learned.
    assert losses[-1] < losses[0] < 6 * np.log(2)


@pytest.mark.long
def test_one_that_learns_alone_has_the_same_bits_each_time_and_after_a_resume(tmp_path):
    spec = _alone(tmp_path / "a")
    whole = _vectors(_ran(tmp_path / "a", "--epochs", "4", spec=spec))
    (tmp_path / "b").mkdir()
    _ran(tmp_path / "b", "--epochs", "4", "--max-epochs", "2", spec=spec)
    done = jobrun("resume", "-q", cwd=tmp_path / "b", started=True)
    assert done.returncode == 0, done.stderr
    run = next((tmp_path / "b" / "runs" / "word-vectors").glob("2*"))

    assert _vectors(run).tobytes() == whole.tobytes()


@pytest.mark.long
def test_all_of_it_is_resumed_and_no_record_is_lost(tmp_path):
    _ran(tmp_path, "--epochs", "5", "--max-epochs", "2")
    done = jobrun("resume", "-q", "--json", cwd=tmp_path, started=True)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["epoch"] == 5
