"""What callables set in libraries and in the environment holds after a resume as before it."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.command import environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run

LIBRARY = """\
import decimal
import os
import signal
import sys
import time

import numpy as np
{imports}

def begin():
{changes}
    return [look()]


def look():
    return {{{looks}}}


def step(seen, epoch):
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)
    assert look() == seen[0], look()
    return [*seen, look()]
"""
SPEC = """\
jobrun: 1
name: settings
init: [{task: begin, steps: [{call: "library:begin", out: seen}]}]
epoch:
  - task: step
    steps: [{call: "library:step", with: {seen: seen}, out: seen}]
stop: [{epochs: 4}]
checkpoint: {every: 1ep}
"""
# Each with how it is changed, and how it is seen.
STANDARD = {
    "decimal.getcontext().prec = 50": "str(decimal.Decimal(1) / 7)",
    "decimal.getcontext().capitals = 0; decimal.Decimal(1) / 3":
        "[str(decimal.Decimal('1E+50')), decimal.getcontext().flags[decimal.Inexact]]",
    "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()": "[time.localtime(0).tm_hour, time.tzname[0]]",
    "np.seterr(over='raise')": "np.geterr()['over']",
    "sys.setrecursionlimit(4321)": "sys.getrecursionlimit()",
    "os.environ['XLA_FLAGS'] = '--a=b'; os.environ.pop('HOME', None)":
        "[os.environ.get('XLA_FLAGS'), 'HOME' in os.environ]",
}  # fmt: skip
TORCH = {
    "torch.set_default_dtype(torch.float64)": "str(torch.ones(1).dtype)",
    "torch.use_deterministic_algorithms(True, warn_only=True)":
        "[torch.are_deterministic_algorithms_enabled(),"
        " torch.is_deterministic_algorithms_warn_only_enabled()]",
    "torch.set_float32_matmul_precision('high')": "torch.get_float32_matmul_precision()",
    "torch.backends.cudnn.benchmark = True": "torch.backends.cudnn.benchmark",
    "torch.backends.cudnn.deterministic = True": "torch.backends.cudnn.deterministic",
    "torch.backends.cudnn.allow_tf32 = False": "torch.backends.cudnn.allow_tf32",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False":
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "torch.set_flush_denormal(True)": "float(np.array([1e-310])[0] * np.array([1.0])[0])",
    "torch.set_grad_enabled(False)": "torch.is_grad_enabled()",
    "torch.set_autocast_enabled('cpu', True)": "torch.is_autocast_enabled('cpu')",
    "torch.set_default_device('meta')": "str(torch.ones(1).device)",
    "torch.set_num_threads(3)": "torch.get_num_threads()",
}  # fmt: skip
NEWER_TORCH = {
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'":
        "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.cudnn.conv.fp32_precision = 'ieee'":
        "torch.backends.cudnn.conv.fp32_precision",
}  # fmt: skip
JAX = {
    "jax.config.update('jax_enable_x64', True)": "str(jax.numpy.ones(1).dtype)",
    "jax.config.update('jax_default_matmul_precision', 'float32')":
        "str(jax.config.jax_default_matmul_precision)",
}  # fmt: skip
SKLEARN = {"sklearn.set_config(working_memory=7)": "sklearn.get_config()['working_memory']"}
SCIPY = {"scipy.special.seterr(singular='raise')": "scipy.special.geterr()['singular']"}


def _write_job(folder, table, imports="", spec=SPEC):
    (folder / "job.yaml").write_text(spec)
    looks = ", ".join(f"{number}: {look}" for number, look in enumerate(table.values()))
    text = LIBRARY.format(
        imports=imports, changes="\n".join(f"    {text}" for text in table), looks=looks
    )
    (folder / "library.py").write_text(text)


def _run_whole_and_killed(folder, *words):
    whole = jobrun("run", "job.yaml", "--run-dir", "whole", *words, cwd=folder, started=True)
    assert whole.returncode == 0, whole.stderr
    (folder / "kill").touch()
    killed = jobrun("run", "job.yaml", "--run-dir", "parts", *words, cwd=folder, started=True)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}, killed.stderr
    resumed = jobrun("resume", "--run-dir", "parts", *words, cwd=folder, started=True)
    assert resumed.returncode == 0, resumed.stderr
    return [
        blobs(list(epochs(only_run(folder / name)).values())[-1]) for name in ("whole", "parts")
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "imports"),
    [
        (STANDARD, ""),
        (TORCH, "import torch\n"),
        (NEWER_TORCH, "import torch\n"),
        (JAX, "import jax\n"),
        (SKLEARN, "import sklearn\n"),
        (SCIPY, "import scipy.special\n"),
    ],
    ids=["standard", "torch", "newer torch", "jax", "sklearn", "scipy"],
)
def test_settings_that_init_makes_hold_in_epochs_before_and_after_a_resume(
    table, imports, tmp_path
):
    _write_job(tmp_path, table, imports)

    whole, parts = _run_whole_and_killed(tmp_path)

    assert whole == parts
    manifest = json.loads(
        (list(epochs(only_run(tmp_path / "parts")).values())[-1] / "manifest.json").read_text()
    )
    assert len(manifest["runner"]["settings"]["local"]) >= len(table)


@pytest.mark.long
def test_a_library_that_only_init_imports_has_its_settings_after_a_resume_too(tmp_path):
    table = {"import torch; torch.set_default_dtype(torch.float64)":
             "str(__import__('torch').ones(1).dtype)"}  # fmt: skip
    _write_job(tmp_path, table)

    whole, parts = _run_whole_and_killed(tmp_path)

    assert whole == parts


@pytest.mark.long
def test_an_array_of_jax_comes_back_with_the_dtype_that_a_callable_of_init_allowed(tmp_path):
    (tmp_path / "library.py").write_text(
        "import jax\n"
        "def begin():\n"
        "    jax.config.update('jax_enable_x64', True)\n"
        "    return jax.numpy.ones(2) / 3\n"
        "def step(x):\n"
        "    return x * 2\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: settings\n"
        'init: [{task: begin, steps: [{call: "library:begin", out: x}]}]\n'
        'epoch: [{task: step, steps: [{call: "library:step", with: {x: x}, out: x}]}]\n'
        "stop: [{epochs: 3}]\ncheckpoint: {every: 1ep}\n"
    )
    begun = jobrun("run", "job.yaml", "--max-epochs", "1", cwd=tmp_path, started=True)
    assert begun.returncode == 75, begun.stderr

    resumed = jobrun("resume", cwd=tmp_path, started=True)

    assert resumed.returncode == 0, resumed.stderr
    last = blobs(list(epochs(only_run(tmp_path / "runs")).values())[-1])
    assert "float64" in {array.dtype for array in last.values()}


# A task with a thread of its own beside the one whose thread it may get.
PAIR = """\
jobrun: 1
name: settings
init: [{task: begin, steps: [{call: "library:begin", out: seen}, other = seen]}]
epoch:
  - {task: wait, steps: [{sleep: 50ms}, {call: "library:look", out: scratch}]}
  - task: step
    steps: [{call: "library:step", with: {seen: seen}, out: seen}]
  - task: beside
    steps: [{sleep: 20ms}, {call: "library:step", with: {seen: other}, out: other}]
stop: [{epochs: 4}]
checkpoint: {every: 1ep}
"""


def test_settings_of_one_thread_hold_in_all_tasks(tmp_path):
    _write_job(tmp_path, STANDARD, spec=PAIR)

    whole, parts = _run_whole_and_killed(tmp_path)

    assert whole == parts


def test_settings_hold_in_the_process_that_replaces_that_of_a_lost_node(tmp_path):
    _write_job(tmp_path, STANDARD, spec=PAIR)
    (tmp_path / "kill").touch()

    done = jobrun("run", "job.yaml", "--session", "processes", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "kill").exists()


def test_a_second_attempt_begins_with_the_settings_of_the_first(tmp_path):
    (tmp_path / "library.py").write_text(
        "import decimal, os\n"
        "def step(epoch):\n"
        "    found = decimal.getcontext().prec\n"
        "    decimal.getcontext().prec += 1\n"
        "    if epoch == 2 and not os.path.exists('failed'):\n"
        "        open('failed', 'w').close()\n"
        "        raise OSError('once')\n"
        "    return found\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: settings\ninit: [{task: begin, steps: [found = 0]}]\n"
        "epoch:\n  - task: step\n    retry: {max: 1}\n"
        '    steps: [{call: "library:step", out: found}]\n'
        "stop: [{epochs: 3}]\nexpect: [found == 30]\n"
    )

    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "failed").exists()


def test_a_save_within_an_epoch_has_the_settings(tmp_path):
    (tmp_path / "library.py").write_text(
        "import decimal, os, signal\n"
        "def step(x, k):\n"
        "    found = decimal.getcontext().prec\n"
        "    decimal.getcontext().prec += 1\n"
        "    if found == 33 and os.path.exists('kill'):\n"
        "        os.remove('kill')\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return k * 100 + found\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: settings\ninit: [{task: begin, steps: [k = 0]}]\n"
        "readers: {train: {counter: {stop: 4}, fields: {x: count}, restart: epoch}}\n"
        "epoch:\n  - task: step\n    read: train\n"
        '    steps: [{call: "library:step", with: {x: x, k: k}, out: k}]\n'
        "stop: [{epochs: 2}]\ncheckpoint: {every: 1 records}\n"
    )

    whole, parts = _run_whole_and_killed(tmp_path)

    assert whole == parts


SECRET = """\
import os, signal

def begin():
    os.environ["HF_TOKEN"] = "hf_" + "x" * 3
    return 0

def step(x, epoch):
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)
    return x + len(os.environ["HF_TOKEN"])
"""


@pytest.fixture
def killed_with_secret(tmp_path):
    (tmp_path / "library.py").write_text(SECRET)
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: secret\n"
        'init: [{task: begin, steps: [{call: "library:begin", out: x}]}]\n'
        'epoch: [{task: step, steps: [{call: "library:step", with: {x: x}, out: x}]}]\n'
        "stop: [{epochs: 4}]\ncheckpoint: {every: 1ep}\n"
    )
    (tmp_path / "kill").touch()
    killed = jobrun("run", "job.yaml", cwd=tmp_path, started=True)
    assert "HF_TOKEN, which looks like a secret" in killed.stderr
    return tmp_path


def test_the_value_of_a_secret_variable_is_in_no_file_of_the_run(killed_with_secret):
    texts = [
        path.read_bytes() for path in (killed_with_secret / "runs").rglob("*") if path.is_file()
    ]

    assert any(b"HF_TOKEN" in text for text in texts)
    assert not any(b"hf_xxx" in text for text in texts)


def test_a_resume_without_the_secret_that_a_callable_had_set_is_refused_by_name(killed_with_secret):
    refused = jobrun("resume", cwd=killed_with_secret, started=True)

    assert refused.returncode != 0
    assert "E268" in refused.stderr
    assert "HF_TOKEN" in refused.stderr


def test_a_resume_with_the_secret_that_a_callable_had_set_goes_through(killed_with_secret):
    variables = environment(HF_TOKEN="hf_xxx")

    resumed = jobrun("resume", cwd=killed_with_secret, started=True, env=variables)

    assert resumed.returncode == 0, resumed.stderr
