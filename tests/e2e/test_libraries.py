"""Models of other libraries as state. Long: each start of one of these libraries takes seconds."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.command import jobrun
from tests.support.stored import Stored, blobs, epochs, only_run

KILL = """\
import os
import signal


def kill(epoch):
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)


"""
TORCH = """\
import torch

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into = torch.nn.Linear(6, 6, dtype=torch.bfloat16)
        self.norm = torch.nn.BatchNorm1d(6)
        self.back = torch.nn.Linear(6, 6, dtype=torch.bfloat16)
        self.back.weight = self.into.weight

    def forward(self, x):
        hidden = self.norm(self.into(x.bfloat16()).float())
        return self.back(hidden.bfloat16()).float()


def make():
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedules = torch.optim.lr_scheduler
    steps = schedules.MultiStepLR(optimizer, [2, 4])
    cycle = schedules.OneCycleLR(torch.optim.SGD(model.parameters(), lr=1.0), 1.0, 100)
    return model, optimizer, steps, cycle, torch.Generator().manual_seed(5)


def train(model, optimizer, steps, cycle, generator, epoch):
    for _ in range(3):
        x = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad()
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
    steps.step()
    cycle.step()
    kill(epoch)
    return loss.item()
"""
SKLEARN = """\
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler


def make():
    random = np.random.RandomState(4)
    return StandardScaler(), MiniBatchKMeans(3, random_state=random, n_init=1), IncrementalPCA(2)


def make_forest():
    rows = np.arange(20.0).reshape(10, 2)
    return RandomForestClassifier(3, random_state=1).fit(rows, [0, 1] * 5)


def train(scaler, clusters, directions, rng, epoch):
    rows = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    rows = scaler.partial_fit(rows).transform(rows)
    clusters.partial_fit(rows)
    directions.partial_fit(rows)
    kill(epoch)
    return float(clusters.inertia_)
"""
SPEC = """\
jobrun: 1
name: library
seed: 3
init:
  - task: make
    rebuild: true
    steps:
      - {{call: "jobrun.generators:seeded", with: {{torch: {torch}}}, out: generators}}
      - {{call: "library:make", out: [{names}]}}
  - task: start
    steps: [loss = inf]
epoch:
  - task: train
    steps:
      - call: library:train
        with: {{{given}}}
        out: loss
        inout: [{names}]
stop: [{{epochs: 5}}]
"""


def ends(folder: Path, library: str, torch: str, names: str) -> list[dict[str, Stored]]:
    """The last state of a run that nothing disturbed, and of one that was killed and resumed."""
    (folder / "library.py").write_text(KILL + library)
    given = ", ".join(f"{name}: {name}" for name in names.split(", "))
    (folder / "job.yaml").write_text(SPEC.format(torch=torch, names=names, given=given))
    whole = jobrun("run", "job.yaml", "--run-dir", "whole", cwd=folder, started=True)
    assert whole.returncode == 0, whole.stderr
    (folder / "kill").touch()
    killed = jobrun("run", "job.yaml", "--run-dir", "parts", cwd=folder, started=True)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}, killed.stderr
    assert not (folder / "kill").exists()
    resumed = jobrun("resume", "--run-dir", "parts", cwd=folder, started=True)
    assert resumed.returncode == 0, resumed.stderr
    runs = (only_run(folder / name) for name in ("whole", "parts"))
    return [blobs(list(epochs(run).values())[-1]) for run in runs]


@pytest.mark.long
def test_a_bfloat16_model_with_tied_weights_and_schedules_goes_on_exactly(tmp_path):
    pytest.importorskip("torch", reason="CI installs it")

    whole, parts = ends(tmp_path, TORCH, "true", "model, optimizer, steps, cycle, generator")

    assert parts == whole
    weight = whole["local:/blobs/model/into.weight"]
    assert (weight.dtype, weight.shape) == ("uint16", (6, 6))
    # Tied: stored once.
    assert "local:/blobs/model/back.weight" not in whole
    assert "local:/blobs/steps/milestones/2" in whole


@pytest.mark.long
def test_estimators_that_are_fitted_in_parts_go_on_exactly(tmp_path):
    whole, parts = ends(tmp_path, SKLEARN, "false", "scaler, clusters, directions")

    assert parts == whole
    assert "local:/blobs/scaler/attributes/mean_" in whole
    assert "local:/blobs/clusters/attributes/cluster_centers_" in whole


@pytest.mark.long
def test_an_estimator_with_compiled_parts_is_refused_right_after_init(tmp_path):
    (tmp_path / "library.py").write_text(KILL + SKLEARN)
    text = SPEC.format(torch="false", names="model", given="model: model")
    (tmp_path / "job.yaml").write_text(text.replace("library:make", "library:make_forest"))

    done = jobrun("run", "job.yaml", cwd=tmp_path, started=True)

    assert done.returncode == 1
    assert "E241" in done.stderr
    assert "'model'" in done.stderr
    assert "RandomForestClassifier" in done.stderr
    assert "DecisionTreeClassifier" in done.stderr
