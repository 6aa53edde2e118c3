"""What the name of a data file shows to be wrong is refused when the job is compiled."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats.load_save import read_member, write_members
from tests.support.compiling import codes_of, fault_of

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".csv", ".tsv", ".parquet", ".NPZ", ".txt", "")
STEPS = {
    "save": "{save: {w: 'FILE'}}",
    "load": "{load: {x: 'FILE'}}",
    "out": "{run: 'true', out: {x: 'FILE'}}",
}
AROUND = {
    "init": "init: [{task: start, steps: [w = 1.0]}, {task: i, needs: [start], steps: [STEP]}]",
    "epoch": "epoch: [{task: t, steps: [w = w + 1, STEP]}]",
    "download": "download: [{task: t, steps: [STEP]}]",
    "exit": "exit: [{task: t, steps: [STEP]}]",
    "report": "epoch: [{task: t, steps: [w = w + 1], report: [{every: 1s, steps: [STEP]}]}]",
    "group report": "exit: {tasks: [{task: t, steps: []}], report: [{every: 1s, steps: [STEP]}]}",
    "setup of a group": "exit: {tasks: [{task: t, steps: []}], setup: {exit: [STEP]}}",
    "setup of a task": "exit: [{task: t, setup: {instance: {init: [STEP]}}, steps: []}]",
    "branch": "exit: [{task: t, steps: [{if: w > 99, then: [STEP]}]}]",
    "net": "nets: {f: [STEP]}\nexit: [{task: t, steps: [{net: f}]}]",
}


def _code_at_run_time(step: str, path: str, member: str) -> list[str]:
    try:
        if step == "save":
            write_members(path, {member: np.zeros(3)})
        else:
            read_member(path, member)
    except JobrunError as error:
        return [error.faults[0].code]
    return []


@pytest.mark.parametrize("step", STEPS)
def test_names_are_refused_as_they_would_be_when_the_step_runs(tmp_path, step):
    for ending, member in product(ENDINGS, ("", "m")):
        path = tmp_path / f"file{ending}"
        if step != "save":
            # What matters is its name: a file that is not there has a fault of its own.
            writable = {".parquet": ".npz", ".txt": ".npz", "": ".npz"}.get(ending, ending)
            name = "" if writable == ".npy" else "m"
            written = tmp_path / f"made{writable}"
            write_members(str(written), {name: np.zeros(3)})
            written.rename(path)
        late = _code_at_run_time(step, str(path), member)
        if ending == ".parquet" and step != "save":
            # It is no parquet file; its name says nothing against it.
            late = []
        file = f"{path}::{member}" if member else str(path)
        text = AROUND["exit"].replace("STEP", STEPS[step].replace("FILE", file))

        expected = [code for code in late if code in ("E281", "E283", "E286")]
        assert codes_of(tmp_path, text) == expected, (step, ending, member)


@pytest.mark.parametrize("surroundings", AROUND)
def test_file_names_are_checked_wherever_a_step_is(tmp_path, surroundings):
    for step, file, code in (
        ("save", "${run.dir}/x.npz", "E286"),
        ("save", "x-${epoch}.npy::m", "E286"),
        ("save", "x.parquet", "E283"),
        ("load", "x.npy::m", "E281"),
        ("out", "x.dat", "E283"),
    ):
        text = AROUND[surroundings].replace("STEP", STEPS[step].replace("FILE", file))
        fault = fault_of(tmp_path, text)

        assert fault.code == code, (surroundings, step, file)
        line = Path(fault.where.file).read_text().splitlines()[fault.where.line - 1]
        assert line[fault.where.column - 1 :].lstrip("'").startswith(file)


def test_ending_that_is_known_at_run_time_only_is_not_refused(tmp_path):
    text = AROUND["exit"].replace("STEP", "{save: {w: 'w.${node}'}}")

    assert codes_of(tmp_path, text) == []


def test_two_blobs_of_a_step_are_not_saved_to_one_place(tmp_path):
    for first, second, code in (
        ("w.npy", "w.npy", "E227"),
        ("w.npz::a", "w.npz::a", "E227"),
        ("w.npz::a", "w.npz::b", None),
        ("w.npy", "v.npy", None),
    ):
        step = f"v = 1.0, {{save: {{w: '{first}', v: '{second}'}}}}"
        text = AROUND["exit"].replace("STEP", step)

        assert codes_of(tmp_path, text) == ([code] if code else []), (first, second)
