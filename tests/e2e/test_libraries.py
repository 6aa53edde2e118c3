"""Models of other libraries as state. Long: each start of one of these libraries takes seconds."""

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
LEFT_OVER = """\
import torch

torch.set_num_threads(1)


def make():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def train(model, optimizer, epoch):
    loss = model(torch.arange(8.0).reshape(2, 4) + epoch).pow(2).sum()
    # Gradients add up over two epochs; from the third on, no batch is looked at for its mean.
    loss.backward()
    if epoch % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if epoch == 2:
        model[1].eval()
    kill(epoch)
    return loss.item()
"""
SKLEARN = """\
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.preprocessing import FunctionTransformer, StandardScaler


def make():
    random = np.random.RandomState(4)
    return StandardScaler(), MiniBatchKMeans(3, random_state=random, n_init=1), IncrementalPCA(2)


def make_nameless():
    return FunctionTransformer(lambda rows: rows + 1)


def train(scaler, clusters, directions, rng, epoch):
    rows = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    rows = scaler.partial_fit(rows).transform(rows)
    clusters.partial_fit(rows)
    directions.partial_fit(rows)
    kill(epoch)
    return float(clusters.inertia_)
"""
ADAPTED = """\
import datetime
from collections import defaultdict, deque

import emcee
import gymnasium
import numpy as np
import pandas
from deap import base, creator, tools
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

creator.create("Most", base.Fitness, weights=(1.0,))
creator.create("Bits", list, fitness=creator.Most)


def density(x):
    return -x @ x


def make():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    env.reset(seed=3)
    env.action_space.seed(4)
    sampler = emcee.EnsembleSampler(6, 2, density)
    sampler.random_state = np.random.RandomState(5).get_state()
    return make_pipeline(StandardScaler(), SGDClassifier(random_state=6)), env, sampler


def start():
    random = np.random.RandomState(7)
    return {
        "recent": deque(maxlen=3), "seen": set(), "table": defaultdict(int),
        "day": datetime.date(2026, 1, 1), "frame": pandas.DataFrame({"x": [0.5, 1.5], "t": "a"}),
        "bits": [creator.Bits(random.randint(0, 2, 8).tolist()) for _ in range(6)],
        "random": random, "best": tools.HallOfFame(1),
    }


def train(pipe, env, sampler, held, epoch):
    seen = []
    for _ in range(20):
        action = env.action_space.sample()
        observation, reward, ended, cut, _ = env.step(action)
        seen.append([*observation.tolist(), action])
        held["table"][action, bool(ended)] += 1
        if ended or cut:
            env.reset()
    rows = np.array(seen)
    pipe[0].partial_fit(rows[:, :4])
    pipe[1].partial_fit(pipe[0].transform(rows[:, :4]), rows[:, 4], classes=[0.0, 1.0])
    sampler.run_mcmc(np.random.RandomState(1).rand(6, 2) if epoch == 1 else None, 3)
    random = held["random"]
    for one in held["bits"]:
        one[random.randint(8)] ^= 1
        one.fitness.values = (float(sum(one)),)
    held["best"].update(held["bits"])
    held["bits"] = [held["bits"][at] for at in random.randint(0, 6, 6)]
    held["recent"].append(rows.mean(axis=0))
    held["seen"].add(tuple(held["best"][0]))
    held["day"] += datetime.timedelta(1)
    frame = held["frame"]
    held["frame"] = pandas.concat([frame, frame.tail(1) * 2], ignore_index=True)
    kill(epoch)
    shown = [pipe[1].coef_, sampler.get_chain()[-1], rows[-1], held["recent"][-1]]
    shown += [np.array(held["best"][0].fitness.values), held["frame"]["x"].to_numpy()]
    shown += [np.array(list(held["table"].values())), np.array(held["day"].toordinal())]
    return float.fromhex(hex(abs(hash(tuple(np.concatenate([one.ravel() for one in shown]))))))
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
    steps: [loss = inf{start}]
epoch:
  - task: train
    steps:
      - call: library:train
        with: {{{given}}}
        out: loss
        inout: [{names}{more}]
stop: [{{epochs: 5}}]
"""


def end_states(
    folder: Path, library: str, torch: str, names: str, start: str = "", more: str = ""
) -> list[dict[str, Stored]]:
    """The last state of a run that nothing disturbed, and of one that was killed and resumed."""
    (folder / "library.py").write_text(KILL + library)
    inputs = ", ".join(f"{name}: {name}" for name in (names + more).split(", "))
    (folder / "job.yaml").write_text(
        SPEC.format(torch=torch, names=names, given=inputs, start=start, more=more)
    )
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
def test_a_bfloat16_model_with_tied_weights_and_schedules_continues_exactly(tmp_path):
    pytest.importorskip("torch", reason="CI installs it")

    whole, parts = end_states(tmp_path, TORCH, "true", "model, optimizer, steps, cycle, generator")

    assert parts == whole
    weight = whole["local:/blobs/model/into.weight"]
    assert (weight.dtype, weight.shape) == ("uint16", (6, 6))
    # Tied: stored once.
    assert "local:/blobs/model/back.weight" not in whole
    assert "local:/blobs/steps/milestones/2" in whole


@pytest.mark.long
def test_gradients_and_modes_outlive_a_kill_as_in_plain_python(tmp_path):
    pytest.importorskip("torch", reason="CI installs it")

    whole, parts = end_states(tmp_path, LEFT_OVER, "false", "model, optimizer")

    assert parts == whole
    assert "local:/blobs/model/.grad/0.weight" in whole
    program = "import library; given = library.make()\nfor epoch in range(1, 6):\n    "
    program += "loss = library.train(*given, epoch)\nprint(loss.hex())"
    plain = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert whole["local:/blobs/loss"].content == np.float64(float.fromhex(plain.stdout)).tobytes()


@pytest.mark.long
def test_estimators_that_are_fitted_in_parts_continue_exactly(tmp_path):
    whole, parts = end_states(tmp_path, SKLEARN, "false", "scaler, clusters, directions")

    assert parts == whole
    assert "local:/blobs/scaler/attributes/mean_" in whole
    assert "local:/blobs/clusters/attributes/cluster_centers_" in whole


@pytest.mark.long
def test_values_and_objects_of_many_libraries_continue_as_in_plain_python(tmp_path):
    for name in ("emcee", "gymnasium", "pandas", "deap"):
        pytest.importorskip(name, reason="CI installs it")

    start = ", {call: library:start, out: held}"
    whole, parts = end_states(tmp_path, ADAPTED, "false", "pipe, env, sampler", start, ", held")

    assert parts == whole
    assert "local:/blobs/sampler/backend/chain" in whole
    program = "import library; objects, held = library.make(), library.start()\n"
    program += "for epoch in range(1, 6):\n    loss = library.train(*objects, held, epoch)\n"
    plain = subprocess.run(
        [sys.executable, "-c", program + "print(loss.hex())"], cwd=tmp_path, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert whole["local:/blobs/loss"].content == np.float64(float.fromhex(plain.stdout)).tobytes()


@pytest.mark.long
def test_an_estimator_with_a_function_without_a_name_is_refused_right_after_init(tmp_path):
    (tmp_path / "library.py").write_text(KILL + SKLEARN + "\ndef keep(model):\n    return 0.0\n")
    text = SPEC.format(torch="false", names="model", given="model: model", start="", more="")
    (tmp_path / "job.yaml").write_text(
        text.replace(":make", ":make_nameless").replace(":train", ":keep")
    )

    done = jobrun("run", "job.yaml", cwd=tmp_path, started=True)

    assert done.returncode == 1
    assert "E241" in done.stderr
    assert "'model'" in done.stderr
    assert "FunctionTransformer" in done.stderr
    assert "<lambda>" in done.stderr
