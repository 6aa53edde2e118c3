"""Versions and numerics."""

from __future__ import annotations

import json
import subprocess
import sys

import h5py
import pytest

from jobrun.runner.identity.environment import describe_environment


def test_environment_is_json_with_all_that_decides_numerics():
    environment = json.loads(json.dumps(describe_environment(), allow_nan=False))

    assert {"python", "numpy", "blas", "blas_threads", "cpu_features", "jobrun"} <= set(environment)
    assert environment["numpy"]
    assert environment["processors"] >= 1


def test_the_version_of_h5py_is_the_one_that_is_imported():
    assert describe_environment()["h5py"] == h5py.__version__


def test_the_version_of_h5py_without_metadata_is_asked_of_the_package(monkeypatch):
    monkeypatch.setattr("jobrun.runner.identity.environment.find_version", lambda package: "")

    assert describe_environment()["h5py"] == h5py.__version__


def test_variables_that_decide_how_libraries_round_are_recorded(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.delenv("XLA_FLAGS", raising=False)

    environment = describe_environment()

    assert environment["variables"] == {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "JAX_ENABLE_X64": "1"}
    assert isinstance(environment["gpus"], list)


@pytest.mark.long
def test_importing_the_runner_does_not_load_numpy():
    program = (
        "import sys, jobrun.runner.start_or_resume\n"
        "print('numpy' in sys.modules, 'h5py' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.split() == [b"False", b"False"]
