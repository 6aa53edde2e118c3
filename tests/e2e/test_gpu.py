"""Jobs whose state is on a GPU. Run wherever ``torch.cuda`` has a device, else left out by name."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.write.writer import write_state
from jobrun.generators import Generators
from jobrun.runtime.snapshots.node_objects import load_object_state
from tests.support.command import environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),
]
AT = {"node": "n", "epoch": 1, "run_id": "r"}

LIBRARY = """\
import os
import signal

import torch


def make(generators):
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Dropout(0.2), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4),
    ).to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", growth_interval=4)
    return model, optimizer, scaler, torch.Generator("cuda").manual_seed(5)


def begin():
    # Once, and not at a resume.
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("high")
    return float("inf")


def train(model, optimizer, scaler, draws, generators, epoch):
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32
    for _ in range(3):
        x = torch.randn(16, 3, 8, 8, device="cuda", generator=draws)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(x.to(memory_format=torch.channels_last)).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)
    return loss.item()
"""
SPEC = """\
jobrun: 1
name: gpu
seed: 3
init:
  - task: make
    rebuild: true
    steps:
      - {call: "jobrun.generators:seeded", with: {torch: true}, out: generators}
      - {call: "library:make", out: [model, optimizer, scaler, draws], inout: [generators]}
  - {task: start, steps: [{call: "library:begin", out: loss}]}
epoch:
  - task: train
    steps:
      - call: library:train
        with: {model: model, optimizer: optimizer, scaler: scaler, draws: draws}
        inout: [model, optimizer, scaler, draws, generators]
        out: loss
metrics: {loss: loss}
stop: [{epochs: 5}]
checkpoint: {every: 1ep}
"""


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def _through_file(value, fresh, path):
    """Save an object's state to a file, and load it into another object."""
    held = capture_object("value", value)
    file = write_state(str(path), **AT, values=flatten_values({"value": held}))
    stored = read_state(str(path), **AT, digest=file.digest, names=["value"])["value"]
    load_object_state("value", fresh, stored)
    return fresh


def test_a_job_with_its_state_on_the_device_continues_with_the_same_bits(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "job.yaml").write_text(SPEC)
    env = environment(CUBLAS_WORKSPACE_CONFIG=":4096:8")
    whole = jobrun("run", "job.yaml", "--run-dir", "whole", cwd=tmp_path, env=env, started=True)
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "kill").touch()
    killed = jobrun("run", "job.yaml", "--run-dir", "parts", cwd=tmp_path, env=env, started=True)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}, killed.stderr
    resumed = jobrun("resume", "--run-dir", "parts", cwd=tmp_path, env=env, started=True)
    assert resumed.returncode == 0, resumed.stderr

    end_states = [
        blobs(list(epochs(only_run(tmp_path / name)).values())[-1]) for name in ("whole", "parts")
    ]
    assert end_states[0] == end_states[1]
    recorded = json.loads((only_run(tmp_path / "whole") / "run.json").read_text())["environment"]
    assert recorded["variables"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert recorded["gpus"]
    last = list(epochs(only_run(tmp_path / "parts")).values())[-1]
    settings = json.loads((last / "manifest.json").read_text())["runner"]["settings"]["local"]
    assert settings["torch.backends.cudnn.deterministic"] is True
    assert settings["torch.backends.cudnn.allow_tf32"] is False


def test_other_settings_of_cublas_at_a_resume_are_numerics_and_refused_when_strict(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "job.yaml").write_text(SPEC)
    words = ("run", "job.yaml", "--max-epochs", "2")
    env = environment(CUBLAS_WORKSPACE_CONFIG=":4096:8")
    assert jobrun(*words, cwd=tmp_path, env=env, started=True).returncode == 75

    other = environment(CUBLAS_WORKSPACE_CONFIG=":16:8")
    done = jobrun("resume", "--strict", cwd=tmp_path, env=other, started=True)

    assert done.returncode == 5
    assert "numerics.CUBLAS_WORKSPACE_CONFIG: was :4096:8, is :16:8" in done.stderr


def test_a_tensor_comes_back_to_its_device_with_its_bits_and_the_order_of_its_axes(torch, tmp_path):
    def created():
        layer = torch.nn.Conv2d(3, 8, 3, device="cuda", dtype=torch.bfloat16)
        return layer.to(memory_format=torch.channels_last)

    whole, fresh = created(), created()
    _through_file(whole, fresh, tmp_path / "state.h5")

    assert fresh.weight.device == whole.weight.device
    assert fresh.weight.stride() == whole.weight.stride()
    assert torch.equal(fresh.weight.view(torch.int16), whole.weight.view(torch.int16))


def test_generators_of_cuda_continue(torch, tmp_path):
    torch.cuda.manual_seed(7)
    generator_ = torch.Generator("cuda").manual_seed(8)
    torch.rand(3, device="cuda")
    state, fresh = Generators().state_dict(), torch.Generator("cuda")
    _through_file(generator_, fresh, tmp_path / "state.h5")
    expected = torch.rand(5, device="cuda"), torch.rand(5, device="cuda", generator=generator_)

    torch.rand(11, device="cuda")
    Generators().load_state_dict(state)

    assert torch.equal(torch.rand(5, device="cuda"), expected[0])
    assert torch.equal(torch.rand(5, device="cuda", generator=fresh), expected[1])


def test_a_save_takes_no_more_device_memory_than_the_largest_tensor(torch, tmp_path):
    layers = [torch.nn.Linear(2000, 2000, device="cuda") for _ in range(8)]
    model = torch.nn.Sequential(*layers)
    largest = max(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    held = capture_object("model", model)
    write_state(str(tmp_path / "state.h5"), **AT, values=flatten_values({"model": held}))

    assert torch.cuda.max_memory_allocated() <= before + largest


STALL = """\
import json
import sys
import time

import torch
import torch.distributed.checkpoint as dcp

torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(3000, 3000, device="cuda") for _ in range(12)])
stalls = []
for number in range(4):
    torch.cuda.synchronize()
    began = time.perf_counter()
    future = dcp.async_save(model.state_dict(), checkpoint_id=f"{sys.argv[1]}/{number}")
    stalls.append(time.perf_counter() - began)
    future.result()
print(json.dumps(sorted(stalls)[1]))
"""
STALLING = """\
import torch


def make():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(3000, 3000, device="cuda") for _ in range(12)]
    return torch.nn.Sequential(*layers)


def touch(model):
    with torch.no_grad():
        for one in model.parameters():
            one.add_(1e-6)
    torch.cuda.synchronize()
"""


def test_an_asynchronous_save_stalls_an_epoch_not_much_longer_than_that_of_torch(tmp_path):
    """Compare the stalls of both in one go: a third more, and 50 ms, is allowed for noise."""
    (tmp_path / "library.py").write_text(STALLING)
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: stall\n"
        'init: [{task: make, rebuild: true, steps: [{call: "library:make", out: model}]}]\n'
        "epoch:\n  - task: go\n    steps:\n"
        '      - {call: "library:touch", with: {model: model}, inout: [model]}\n'
        "      - {sleep: 4s}\n"
        "stop: [{epochs: 4}]\ncheckpoint: {every: 1ep, async: true}\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path, started=True)
    assert done.returncode == 0, done.stderr
    events = (only_run(tmp_path / "runs") / "events.jsonl").read_text().splitlines()
    stalls = sorted(
        entry["stall_s"] for entry in map(json.loads, events) if entry.get("stall_s") is not None
    )
    theirs = subprocess.run(
        [sys.executable, "-c", STALL, str(tmp_path / "dcp")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    ours, other = float(np.median(stalls)), json.loads(theirs.stdout)
    print(f"stall of an asynchronous save: {ours * 1e3:.0f} ms, torch's {other * 1e3:.0f} ms")
    assert ours <= 4 / 3 * other + 0.05
