"""Run a job that is saved between two records, with all that a resume must bring back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Measured
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.rundir.run_directories import Run, newest_run
from jobrun.runner.saving.mid_epoch_saver import MidEpochSaver
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.spec.load import LoadedSpec, load_spec

ROWS = 47
READER = "batch: 3, shuffle: true"
SPEC = """\
jobrun: 1
name: midway
seed: 5
readers:
  train: {npy: data.npy, fields: [x], READER}
nets:
  around:
    setup:
      task:
        init: ["s = rng.random()", "T = zeros((3, 4))"]
        exit: ["w[1] += s + rng.random()"]
      node:
        init: ["g = rng.random(5)"]
        exit: []
    steps: ["s = s * 0.5"]
init:
  - {task: start, steps: ["w = zeros(4)", "k = 0", "M = zeros((4, 3))"]}
epoch:
  - task: fit
    read: train
    steps:
      - net: around
      - w += mean(x, axis=0) * rng.normal()
      - k += 1
      - M = outer(w, x[0, :3])
      - w[0] = tanh(w[0] + sum(T))
      - T = M.T
      - s = tanh(s + sum(T) + len(x))
      - {metric: {s: s}}
    outputs: [{last: s + sum(T)}]
metrics: {k: k, last: fit.last}
checkpoint: {every: EVERY}
stop: [{when: k > 40}, {epochs: 3}]
"""


class Stand:
    """A folder with data, the spec, and its runs."""

    def __init__(self, folder: Path, reader: str = READER, every: str = "2 records") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.spec = folder / "midway.yaml"
        self.spec.write_text(SPEC.replace("READER", reader).replace("EVERY", every))
        np.save(folder / "data.npy", np.random.default_rng(0).normal(size=(ROWS, 4)))
        self.events: list[Any] = []

    def start(self, **options: Any) -> RunResult:
        loaded = load_spec(str(self.spec))
        return start_run(loaded, compile_job(loaded).job, self._options(options), self._tell)

    def resume(self, loaded: LoadedSpec | None = None, **options: Any) -> RunResult:
        return resume_run(self.run, self._options(options), self._tell, loaded=loaded)

    @property
    def run(self) -> Run:
        run = newest_run(self.folder / "runs", "midway")
        assert run is not None
        return run

    @property
    def names(self) -> list[str]:
        """List the directories of all checkpoints."""
        return sorted(path.name for path in (self.run.path / "checkpoints").iterdir())

    @property
    def measured(self) -> list[str]:
        """Return what the run's metrics hold of its steps' and its job's measurements."""
        lines = (self.run.path / "metrics.jsonl").read_text().splitlines()
        return [line.partition('"name"')[2] for line in lines if Measured.__name__ in line]

    def outcome(self) -> dict[str, list[tuple[str, str, bytes]]]:
        """Return every blob of every whole epoch, to the bit."""
        return {
            path.parent.name: [
                (blob.name, blob.dtype, np.asarray(blob.value).tobytes())
                for blob in inspect_state(str(path)).blobs
            ]
            for path in sorted((self.run.path / "checkpoints").glob("*/local.h5"))
        }

    def _options(self, options: dict[str, Any]) -> RunOptions:
        return RunOptions(run_dir=self.folder / "runs", **options)

    def _tell(self, event: Any) -> None:
        self.events.append(event)


class FailingAt:
    """Makes a safe point fail after it was saved, as an error of the disk would."""

    def __init__(self, monkeypatch: Any, at: int) -> None:
        saved, remaining = MidEpochSaver._saved, [at]

        def fail(self: Any, *arguments: Any) -> bool:
            result = saved(self, *arguments)
            remaining[0] -= 1
            if remaining[0] == 0:
                raise EnvironmentFaultError.of("E313", "the disk is gone", "bring it back")
            return result

        monkeypatch.setattr(MidEpochSaver, "_saved", fail)
