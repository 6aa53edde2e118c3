"""What a process uses, here and where less is known; the rows of time; what measuring may cost."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from jobrun.core import resource_usage as usage
from jobrun.core.resource_usage import CostBudget, MemoryWatch, measure_process, process_start
from jobrun.core.time_use import TimeUse


def test_rows_of_time_add_up_and_the_longest_comes_first():
    whole = TimeUse(computing=5.0, saves=1.0).add(TimeUse(saves=6.0, upload=0.5))

    assert whole.rows() == [("waiting for saves", 7.0), ("computing", 5.0), ("upload", 0.5)]
    assert whole.total_s == sum(seconds for _, seconds in whole.rows())


def test_memory_and_processor_time_of_this_process_are_measured(tmp_path):
    before = measure_process("a")
    array = np.ones(8 << 20)
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x" * (1 << 20))
        os.fsync(file.fileno())

    now = measure_process("a")

    assert now.node == "a"
    assert now.resident_bytes - before.resident_bytes > array.nbytes / 2
    assert now.peak_bytes >= now.resident_bytes
    assert now.cpu_s >= before.cpu_s > 0
    assert now.written_bytes >= before.written_bytes


def test_without_proc_the_peak_and_processor_time_are_known_still(monkeypatch):
    monkeypatch.setattr(usage, "_read", lambda _path: b"")

    measured = measure_process()

    assert (measured.resident_bytes, measured.read_bytes, measured.written_bytes) == (0, 0, 0)
    assert measured.peak_bytes > 1 << 20
    assert measured.cpu_s > 0


def test_without_proc_and_getrusage_only_processor_time_is_known(monkeypatch):
    monkeypatch.setattr(usage, "_read", lambda _path: b"")
    monkeypatch.setitem(sys.modules, "resource", None)

    assert measure_process().peak_bytes == 0
    assert measure_process().cpu_s > 0


@pytest.mark.parametrize("nvml", [True, False])
def test_gpu_memory_is_that_of_torch_if_the_job_has_loaded_it(monkeypatch, nvml):
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 2,
        memory_reserved=lambda device: (3, 0)[device],
        max_memory_reserved=lambda device: (5, 0)[device],
        utilization=lambda _one: 70,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace() if nvml else None)

    measured = measure_process()

    assert (measured.gpu_bytes, measured.gpu_peak_bytes) == (3, 5)
    assert measured.gpu_percent == (70 if nvml else None)


def test_a_driver_that_fails_does_not_fail_the_run(monkeypatch):
    cuda = SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1 // 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    assert measure_process().gpu_bytes == 0


def test_gpu_memory_is_asked_of_pynvml_where_there_is_no_torch(monkeypatch):
    mine, others = SimpleNamespace(pid=os.getpid(), usedGpuMemory=9), SimpleNamespace(pid=1)
    nvml = SimpleNamespace(
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=int,
        nvmlDeviceGetComputeRunningProcesses=lambda device: [mine, others] if device else [others],
        nvmlDeviceGetUtilizationRates=lambda _one: SimpleNamespace(gpu=40),
    )
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)

    measured = measure_process()

    assert (measured.gpu_bytes, measured.gpu_percent) == (9, 40)


def test_measuring_is_due_again_when_its_cost_is_the_share():
    now, spent = [10.0], [0.0]
    budget = CostBudget(0.01, lambda: now[0], lambda: spent[0])
    assert budget.is_due

    spent[0] = 0.002
    budget.spend(0.0)

    now[0] = 10.19
    assert not budget.is_due
    now[0] = 10.2
    assert budget.is_due


def test_growth_of_memory_is_noticed_while_nothing_else_happens():
    grown = threading.Event()
    watch = MemoryWatch(grown.set, every_s=0.01)

    assert not grown.wait(0.05)
    array = np.ones(32 << 20)

    assert grown.wait(20)
    assert array.size
    watch.close()


def test_a_process_that_is_gone_started_now():
    assert process_start(os.getpid()) < process_start(2**22 + 1)
