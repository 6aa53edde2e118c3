"""The axis order of arrays and the memory format of tensors outlive kills, with the bits of Python.

Each job computes what depends on the order of memory. It is run unbroken, killed and resumed, and
as a plain program; all of them end alike.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import jobrun
from tests.support.stored_runs import Stored, blobs, epochs, only_run

KILL = """\
import os
import signal

import numpy as np


def kill(epoch):
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)


"""
# Each has start(), step(state, epoch) and look(state), which gives one number.
ARRAYS = """\
def start():
    rows = np.random.default_rng(5).normal(size=(301, 57)) * 10.0 ** np.arange(57)
    return {
        "fortran": np.asfortranarray(rows),
        "cube": np.moveaxis(rows.reshape(7, 43, 57).copy(), 0, 1).copy(order="K"),
    }


def step(state, epoch):
    kill(epoch)
    return {name: one * (1 + look(state) % 1e-3) for name, one in state.items()}


def look(state):
    return float(sum(one.sum() for one in state.values()))
"""
OBJECT = """\
class Table:
    def __init__(self):
        self.rows = np.random.default_rng(5).normal(size=(301, 57)) * 10.0 ** np.arange(57)

    def state_dict(self):
        return {"rows": self.rows}

    def load_state_dict(self, state):
        self.rows = state["rows"]


def start():
    return Table()


def step(state, epoch):
    kill(epoch)
    state.rows = np.asfortranarray(state.rows * (1 + look(state) % 1e-3))
    return state


def look(state):
    return float(state.rows.sum())
"""
SKLEARN = """\
from sklearn.decomposition import MiniBatchDictionaryLearning

ROWS = np.random.default_rng(0).normal(size=(60, 12))


def start():
    return MiniBatchDictionaryLearning(
        n_components=5, batch_size=10, random_state=0, n_jobs=1, transform_max_iter=20
    )


def step(state, epoch):
    kill(epoch)
    state.partial_fit(ROWS[(epoch - 1) * 10 :][:10])
    return state


def look(state):
    return float(state.components_.sum()) if hasattr(state, "components_") else 0.0
"""
TORCH = """\
import torch

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def start():
    torch.manual_seed(3)
    net = torch.nn.Conv2d(5, 4, 1).state_dict()
    rows = torch.randn(3, 5, 7, 6)
    return {
        "x": rows.to(memory_format=torch.channels_last),
        "turned": rows.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        "weight": net["weight"].to(memory_format=torch.channels_last),
    }


def step(state, epoch):
    kill(epoch)
    made = torch.nn.functional.conv2d(state["x"], state["weight"])
    # The convolution gives the memory format of what it is given.
    formats = [list(one.stride()) for one in (*map(state.get, ("x", "turned")), made)]
    tensors = {name: one for name, one in state.items() if torch.is_tensor(one)}
    return {
        **{name: one * (1 + look(state) % 1e-3) for name, one in tensors.items()},
        "formats": formats,
    }


def look(state):
    return float(sum(float(one.sum()) for one in state.values() if hasattr(one, "sum")))
"""
VALUES_SPEC = """\
jobrun: 1
name: layout
seed: 3
init:
  - task: start
    steps:
      - {call: "layout:start", out: state}
      - {call: "layout:look", with: {state: state}, out: seen}
epoch:
  - task: go
    steps:
      - {call: "layout:step", with: {state: state, epoch: epoch}, out: state}
      - {call: "layout:look", with: {state: state}, out: seen}
stop: [{epochs: 5}]
"""
OBJECT_SPEC = """\
jobrun: 1
name: layout
seed: 3
init:
  - task: make
    rebuild: true
    steps:
      - {call: "layout:start", out: state}
  - task: start
    steps: [seen = 0.0]
epoch:
  - task: go
    steps:
      - {call: "layout:step", with: {state: state, epoch: epoch}, inout: [state]}
      - {call: "layout:look", with: {state: state}, out: seen}
stop: [{epochs: 5}]
"""
PLAIN = """\
import layout

state = layout.start()
for epoch in range(1, 6):
    state = layout.step(state, epoch)
print(repr(layout.look(state)))
"""


def _expect(folder: Path, library: str, spec: str) -> dict[str, Stored]:
    """Run a job unbroken, killed and resumed, and as plain Python; the last state of all."""
    (folder / "layout.py").write_text(KILL + library)
    (folder / "job.yaml").write_text(spec)
    (folder / "plain.py").write_text(PLAIN)
    whole = jobrun("run", "job.yaml", "--run-dir", "whole", cwd=folder, started=True)
    assert whole.returncode == 0, whole.stderr
    (folder / "kill").touch()
    killed = jobrun("run", "job.yaml", "--run-dir", "parts", cwd=folder, started=True)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}, killed.stderr
    assert not (folder / "kill").exists()
    resumed = jobrun("resume", "--run-dir", "parts", cwd=folder, started=True)
    assert resumed.returncode == 0, resumed.stderr
    plain = subprocess.run(
        [sys.executable, "plain.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    runs = (only_run(folder / name) for name in ("whole", "parts"))
    ours, theirs = (blobs(list(epochs(run).values())[-1]) for run in runs)
    assert theirs == ours
    seen = np.frombuffer(ours["local:/blobs/seen"].content, np.float64)[0]
    assert seen == float(plain.stdout)
    return ours


@pytest.mark.long
@pytest.mark.long
def test_fortran_ordered_arrays_in_a_dict_are_summed_as_in_plain_python(tmp_path):
    whole = _expect(tmp_path, ARRAYS, VALUES_SPEC)

    assert ("order", "np.bytes_(b'1,0')") in whole["local:/blobs/state/fortran"].attributes
    assert ("order", "np.bytes_(b'1,0,2')") in whole["local:/blobs/state/cube"].attributes


@pytest.mark.long
def test_a_fortran_ordered_array_that_is_a_blob_is_summed_as_in_plain_python(tmp_path):
    single = ARRAYS.replace("return {\n", "return np.asfortranarray(rows)\n    {\n", 1)
    single = single.replace(
        "{name: one * (1 + look(state) % 1e-3) for name, one in state.items()}",
        "state * (1 + look(state) % 1e-3)",
    )
    single = single.replace("sum(one.sum() for one in state.values())", "state.sum()")

    whole = _expect(tmp_path, single, VALUES_SPEC)

    assert ("order", "np.bytes_(b'1,0')") in whole["local:/blobs/state"].attributes


@pytest.mark.long
def test_a_fortran_ordered_array_of_an_object_stays_so(tmp_path):
    whole = _expect(tmp_path, OBJECT, OBJECT_SPEC)

    assert ("order", "np.bytes_(b'1,0')") in whole["local:/blobs/state/rows"].attributes


@pytest.mark.long
@pytest.mark.timeout(400)
def test_dictionary_learning_of_scikit_learn_ends_with_the_same_components(tmp_path):
    whole = _expect(tmp_path, SKLEARN, OBJECT_SPEC)

    assert "local:/blobs/state/attributes/components_" in whole


@pytest.mark.long
@pytest.mark.timeout(400)
def test_channels_last_and_permuted_tensors_keep_their_memory_format(tmp_path):
    whole = _expect(tmp_path, TORCH, VALUES_SPEC)

    assert ("order", "np.bytes_(b'0,2,3,1')") in whole["local:/blobs/state/x"].attributes
