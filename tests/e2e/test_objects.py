"""Objects and containers as state: found when they cannot be kept, else exact whatever happens."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import jobrun
from tests.support.stored_runs import blobs, epochs, only_run

LIBRARY = """\
import os
import random
import signal

import numpy as np


class Model:
    def __init__(self, width):
        self.w = np.zeros(width)
        self.seen = []
        self.more = {"none": None, "raw": b"x", "tied": self.w}

    def state_dict(self):
        return {"w": self.w, "seen": self.seen, "more": self.more}

    def load_state_dict(self, state):
        if state["w"].shape != self.w.shape:
            raise ValueError(f"w has {len(state['w'])} numbers, not {len(self.w)}")
        vars(self).update(state)


class Other(Model):
    pass


class Stateless:
    pass


class Unsavable(Model):
    def state_dict(self):
        return {"w": self.w, "inner": {"hook": lambda: None}}


def model(width):
    return Model(width)


def other(width):
    return Other(width)


def stateless(width):
    return Stateless()


def function(width):
    return lambda: width


def unsavable(width):
    return Unsavable(width)


def table():
    return {"rates": [0.1, 0.2], "names": ("a", None), "counts": np.zeros(2, np.int8)}


def train(model, table, generators, rng, epoch):
    model.w += rng.random(len(model.w))
    model.more["tied"][0] += random.random()
    model.seen.append(epoch / 3)
    table["counts"][0] += 1
    table["rates"].append(epoch)
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)
    if epoch == 2 and os.path.exists("fail"):
        os.remove("fail")
        raise RuntimeError("once")
    return float(model.w.sum())
"""
SPEC = """\
jobrun: 1
name: objects
seed: 3
params: {{width: 4}}
init:
  - task: make
    rebuild: {rebuild}
    steps:
      - {{call: "jobrun.generators:seeded", out: generators}}
      - {{call: "library:{make}", with: {{width: width}}, out: model}}
      - X = arange(3.0)
  - task: start
    steps: [loss = inf, {{call: "library:table", out: table}}]
epoch:
  - task: train
    retry: {{max: 1}}
    steps:
      - call: library:train
        with: {{model: model, table: table}}
        inout: [model, table, generators]
        out: loss
metrics: {{loss: loss}}
stop: [{{epochs: 5}}]
checkpoint: {{every: 1ep}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    write(tmp_path)
    return tmp_path


def write(folder: Path, make: str = "model", rebuild: str = "true") -> None:
    (folder / "job.yaml").write_text(SPEC.format(make=make, rebuild=rebuild))


def run(folder: Path, *more: str | Path, code: int = 0) -> str:
    done = jobrun("run", "job.yaml", *more, cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stderr


def state(folder: Path) -> dict[str, object]:
    return blobs(list(epochs(only_run(folder)).values())[-1])


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        ("stateless", ("E202", "'model'", "library.Stateless", "state_dict()")),
        ("function", ("E202", "'model'", "function")),
        (
            "unsavable",
            ("E241", "init/make/steps[1]", "'model'", "library.Unsavable", "'model/inner/hook'"),
        ),
    ],
)
def test_an_object_that_cannot_be_kept_is_found_right_after_init(folder, make, parts):
    write(folder, make)

    output = run(folder, code=1)

    assert all(part in output for part in parts), output
    assert not [*folder.glob("runs/**/epoch-000001")]


def test_an_object_of_a_task_without_rebuild_is_found_right_after_init(folder):
    write(folder, rebuild="false")

    output = run(folder, code=1)

    assert "E242" in output
    assert "rebuild: true" in output


def test_a_constant_that_is_no_object_cannot_be_handed_out_to_be_changed(folder):
    text = SPEC.format(make="table", rebuild="true").replace("with: {width: width}, ", "")
    (folder / "job.yaml").write_text(text)

    output = run(folder, code=1)

    assert "E244" in output
    assert "'model' is a constant, dict of 3" in output


@pytest.mark.parametrize(
    "fragment", ["steps:\n      - best = model", "outputs: [{best: model}]\n    steps:"]
)
def test_an_object_cannot_be_assigned_to_another_name(folder, fragment):
    spec = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(
        spec.replace("steps:\n      - call", f"{fragment}\n      - call")
    )

    output = run(folder, code=1)

    assert "E240" in output
    assert "'best'" in output


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_killed_and_resumed_it_ends_with_the_same_bits(folder, session):
    run(folder, "--run-dir", "whole")
    (folder / "kill").touch()

    done = jobrun("run", "job.yaml", "--run-dir", "parts", "--session", session, cwd=folder)
    if session == "threads":
        assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}
        done = jobrun("resume", "--run-dir", "parts", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert not (folder / "kill").exists()
    actual = state(folder / "parts")
    assert actual == state(folder / "whole")
    parts = ("model/w", "model/:structure", "table/counts", "generators/python/1")
    assert {f"local:/blobs/{part}" for part in parts} <= set(actual)


@pytest.mark.long
def test_a_retry_starts_from_what_the_object_was(folder):
    run(folder, "--run-dir", "whole")
    (folder / "fail").touch()

    output = run(folder, "--run-dir", "parts")

    assert "attempt 1" in output
    assert state(folder / "parts") == state(folder / "whole")


@pytest.mark.long
def test_an_object_of_another_form_is_refused_and_nothing_runs(folder):
    run(folder, "--max-epochs", "2", code=75)

    done = jobrun(
        "resume",
        "--spec",
        "job.yaml",
        "--set",
        "params.width=5",
        "--accept-drift",
        "params.width",
        cwd=folder,
    )

    assert done.returncode == 4, done.stderr
    assert "E325" in done.stderr
    assert "'model'" in done.stderr
    assert "w has 4 numbers, not 5" in done.stderr
    assert list(epochs(only_run(folder / "runs"))) == [0, 1, 2]


@pytest.mark.long
def test_an_object_of_another_class_is_drift(folder):
    run(folder, "--max-epochs", "2", code=75)
    write(folder, "other")

    done = jobrun("resume", "--spec", "job.yaml", "--accept-drift", "init.make", cwd=folder)

    assert done.returncode == 5, done.stderr


@pytest.mark.long
def test_a_fork_takes_an_object_by_its_name(folder):
    run(folder)
    parent = only_run(folder / "runs")
    done = jobrun("fork", "latest", "--blobs", "model", "--epochs", "1", cwd=folder)

    assert done.returncode == 0, done.stderr
    (fork,) = set(parent.parent.glob("2*")) - {parent}
    (end,) = [path for number, path in epochs(fork).items() if number == 1]
    assert blobs(end)["local:/blobs/model/seen"].shape == (6,)
    assert blobs(end)["local:/blobs/table/counts"].content == b"\1\0"


@pytest.mark.long
def test_what_is_in_an_object_can_be_seen_compared_and_taken_out(folder):
    run(folder)

    shown = jobrun("inspect-checkpoint", "latest", cwd=folder).stdout
    apart = jobrun("ckpt", "diff", "latest@4", "latest@5", cwd=folder).stdout
    taken = jobrun("ckpt", "export", "latest", "--blob", "model", "-o", "m.npz", cwd=folder)

    assert "object" in shown
    assert "library.Model" in shown
    assert "model/more/raw" in shown
    assert "model/w" in apart
    assert taken.returncode == 0, taken.stderr
    with np.load(folder / "m.npz") as file:
        assert "model/w" in file.files
