"""Write the metrics of a live run for Weights & Biases, offline (extra ``jobrun[wandb]``).

Nothing is sent anywhere: ``wandb sync RUN/wandb/offline-run-*`` does, when it is wanted. The
project is that of ``WANDB_PROJECT``, else the job's name. Each start writes the whole history into
a new run of W&B with the same id, and removes the one before; unless that was synced: then the new
one gets an id of its own, as W&B cannot take points back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from jobrun.runner.listeners.listener import EpochMetrics, ListenedRun, Outcome

FOLDER = "wandb"
_SYNCED = ".synced"


class WandbListener:
    """Logs a run's metrics to an offline run of Weights & Biases, in the run's directory."""

    def __init__(self) -> None:
        self._wandb: Any = import_module("wandb")
        self._run: Any = None

    def begin(self, run: ListenedRun, history: Sequence[EpochMetrics]) -> None:
        """Begin an offline run of W&B with the metrics so far; remove unsynced older runs."""
        self._finish("stopped")
        folder = run.directory / FOLDER
        older = sorted(folder.glob("offline-run-*"))
        synced = [old_run for old_run in older if list(old_run.glob(f"*{_SYNCED}"))]
        identity = run.run_id.replace("-", "")[:16] + (f"-{len(synced) + 1}" if synced else "")
        for old_run in older:
            if old_run not in synced:
                shutil.rmtree(old_run)
        self._run = self._wandb.init(
            # W&B creates the folder ``wandb`` in it.
            dir=str(run.directory),
            mode="offline",
            id=identity,
            name=f"{run.job}/{run.name}",
            project=os.environ.get("WANDB_PROJECT") or run.job,
            config=dict(run.params),
            settings=self._wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
            ),
        )
        for metrics in history:
            self.record(metrics)

    def record(self, metrics: EpochMetrics) -> None:
        """Log the metrics of an epoch to W&B, with the epoch as W&B's step."""
        self._run.log({**metrics.values, "epoch": metrics.epoch}, step=metrics.epoch)

    def end(self, outcome: Outcome) -> None:
        """Finish the offline run of W&B."""
        self._finish(outcome)

    def _finish(self, outcome: Outcome) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=int(outcome == "failed"))
