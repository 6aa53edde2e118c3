"""How much later a loop is for one save beside it: jobrun's, and asynchronous saves of others.

Run as ``python -m tests.benchmarks.bench_added``. Every step of the loop changes each array of the
state in place. What is still under way when the loop is over is not counted, in favour of those
who are slow; torch and Orbax (dependency group ``bench``) are left out where they are missing.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import util
from pathlib import Path

import numpy as np

from jobrun.graph.steps import SaveState
from jobrun.runtime.snapshots.snapshot import Snapshots
from tests.benchmarks import peers
from tests.benchmarks.checkpoint_cases import SCALE, Values, mixed, size_bytes
from tests.benchmarks.ratios import verdict

ROUNDS = int(os.environ.get("JOBRUN_BENCH_ROUNDS", "5"))
_STEPS = 8
_NODE = "n"

# Begins a save into an empty folder; returns how to get past the gate, and how to wait for the end.
Begin = Callable[[Path, Values], tuple[Callable[[], None], Callable[[], None]]]


def _nothing() -> None:
    pass


def no_save(folder: Path, values: Values) -> tuple[Callable[[], None], Callable[[], None]]:
    """The loop alone."""
    del folder, values
    return _nothing, _nothing


class Ours:
    """As a session does it."""

    def __init__(self) -> None:
        self._savings = Snapshots()
        self._epoch = 0

    def __call__(
        self, folder: Path, values: Values
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        names = frozenset(values)
        step = SaveState("n.h5", tuple(sorted(values)), "bench", "save")
        self._epoch += 1
        ticket = self._savings.begin(step, _NODE, self._epoch, values)
        changed = {_NODE: names}
        self._savings.protect((ticket,), (changed,), {})
        writing = threading.Thread(target=self._savings.persist, args=(ticket, str(folder)))
        writing.start()

        def gate() -> None:
            for held in self._savings.gates(changed).values():
                held.pass_gate(names)

        def end() -> None:
            writing.join()
            self._savings.release((ticket,))

        return gate, end


def dcp_async(folder: Path, values: Values) -> tuple[Callable[[], None], Callable[[], None]]:
    """Of torch; the process group has one member."""
    import torch.distributed as distributed  # noqa: PLC0415
    import torch.distributed.checkpoint as checkpoint  # noqa: PLC0415

    if not distributed.is_initialized():
        store = distributed.HashStore()
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    future = checkpoint.async_save(peers.tensors(values), checkpoint_id=folder / "dcp")
    return _nothing, lambda: future.result() and None


class OrbaxAsync:
    """Its checkpointer is kept, as its manual says."""

    def __init__(self) -> None:
        import orbax.checkpoint as orbax  # noqa: PLC0415

        self._saver = orbax.AsyncCheckpointer(orbax.PyTreeCheckpointHandler())

    def __call__(
        self, folder: Path, values: Values
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        self._saver.save(folder / "orbax", dict(values))
        return _nothing, self._saver.wait_until_finished


def loop(begin: Begin, folder: Path, values: Values) -> tuple[float, float]:
    """Seconds of the loop, and of the blocking call that begins the save."""
    matrix = np.ones((800, 800), np.float32)
    began = time.perf_counter()
    gate, end = begin(folder, values)
    called_s = time.perf_counter() - began
    for number in range(_STEPS):
        for _ in range(4):
            matrix = matrix @ matrix * np.float32(1e-3)
        if not number:
            gate()
        for value in values.values():
            np.add(value, np.asarray(1, value.dtype), out=value)
    took_s = time.perf_counter() - began
    end()
    return took_s, called_s


def main() -> None:
    """Print what each adds to the loop."""
    begins: dict[str, Begin] = {"no save": no_save, "jobrun": Ours()}
    if util.find_spec("torch"):
        begins["torch DCP, asynchronous"] = dcp_async
    if util.find_spec("orbax"):
        begins["Orbax, asynchronous"] = OrbaxAsync()
    values = {name: value.copy() for name, value in mixed().items()}
    took: dict[str, list[float]] = {name: [] for name in begins}
    called: dict[str, list[float]] = {name: [] for name in begins}
    with tempfile.TemporaryDirectory() as work_directory:
        for turn in range(ROUNDS + 1):
            for number, (name, begin) in enumerate(begins.items()):
                folder = Path(work_directory, f"{turn}-{number}")
                folder.mkdir()
                took_s, called_s = loop(begin, folder, values)
                if turn:
                    took[name].append(took_s)
                    called[name].append(called_s)
                peers.empty(folder)
    print(f"\nadded to a loop, 300 tensors x {SCALE:g}: {size_bytes(values) >> 20} MiB")
    added = {
        name: statistics.median(
            mine - free for mine, free in zip(took[name], took["no save"], strict=True)
        )
        for name in begins
    }
    for name in begins:
        print(
            f"  {name:28} loop {statistics.median(took[name]) * 1e3:9,.1f} ms"
            f"   added {added[name] * 1e3:9,.1f} ms"
            f"   blocking call {statistics.median(called[name]) * 1e3:8,.2f} ms"
        )
    for name, aim in (("torch DCP, asynchronous", 0.2), ("Orbax, asynchronous", 0.1)):
        if name in added:
            ratio = added["jobrun"] / max(added[name], 1e-9)
            print(f"  jobrun against {name:24} {ratio:8.2f} x{verdict(ratio, aim)}")


if __name__ == "__main__":
    main()
