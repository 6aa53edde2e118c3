"""Run and resume a job whose declared state permits another number of nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import JobrunError
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import Run, newest_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.spec.load import load_spec

ROWS = 11
# What becomes of a row depends on the row alone, so the whole is the same on any number of nodes.
SPEC = """\
jobrun: 1
name: part
params: {rows: 11}
nodes: {t: {count: 2}, head: {}}
state: {U: {partition: rows}, V: replicated}
init:
  - task: all
    node: t
    steps:
      - A = reshape(arange(float(rows * 3)), (rows, 3)) / 7
      - U = A[node.index * rows // node.count:(node.index + 1) * rows // node.count]
      - V = 0.5
      - del A
  - {task: one, node: head, steps: [n = 0]}
epoch:
  - {task: step, node: t, steps: [U *= 1.0 + V / (2 + epoch), V = V * 0.9]}
  - {task: count, node: head, steps: [n = n + 1]}
stop: [{epochs: 5}]
"""


class Elastic:
    """Runs and resumes the job in a folder, in this process."""

    def __init__(self, folder: Path, text: str = SPEC) -> None:
        self.folder = folder
        self.text = text
        self.events: list[object] = []

    def write(self, count: int) -> str:
        """Write the spec, on so many nodes."""
        path = self.folder / "part.yaml"
        path.write_text(self.text.replace("count: 2", f"count: {count}"))
        return str(path)

    def run(self, count: int, **options: object) -> None:
        """Start the job, or resume it, on so many nodes."""
        loaded = load_spec(self.write(count))
        chosen = RunOptions(run_dir=self.folder / "runs", **options)  # type: ignore[arg-type]
        if newest_run(chosen.run_dir, "part") is None:
            start_run(loaded, compile_job(loaded).job, chosen, self.events.append)
        else:
            resume_run(self.newest, chosen, self.events.append, loaded=loaded)

    def refused(self, count: int, **options: object) -> JobrunError:
        """Return the error of a resume on so many nodes."""
        try:
            self.run(count, **options)
        except JobrunError as error:
            return error
        raise AssertionError("it was not refused")

    @property
    def newest(self) -> Run:
        """Return the newest run."""
        run = newest_run(self.folder / "runs", "part")
        assert run is not None
        return run

    def saved(self, epoch: int, name: str, family: str = "t") -> list[object]:
        """Return a blob of each node of the family that has it, in the order of the nodes."""
        store = DirectoryStore(str(self.newest.path / "checkpoints"))
        manifest = store.manifest(epoch)
        values = []
        for file in manifest.files:
            if file.node.partition("_")[0] == family:
                values += read_state(
                    str(Path(store.path(epoch), file.name)),
                    node=file.node,
                    epoch=epoch,
                    run_id=manifest.run_id,
                    digest=file.digest,
                    names=[name],
                    partial=True,
                ).values()
        return values

    def whole(self, epoch: int) -> bytes:
        """Return the bits of all rows of U, joined."""
        return np.concatenate(self.saved(epoch, "U")).tobytes()
