"""Run a small job with everything that a resume must bring back, here or in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import JobrunError
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.rundir.run_directories import Run, newest_run, runs
from jobrun.runner.start_or_resume import resume_run, run_with_policy, start_run
from jobrun.spec.load import load_spec
from tests.support.forked_commands import ROOT, run_module

SPEC = """\
jobrun: 1
name: walk
seed: 5
nodes: {a: {}, b: {}}
init:
  - task: data
    node: a
    rebuild: true
    steps: ["X = arange(12.0) / 7"]
  - task: start
    node: a
    needs: [data]
    steps: ["w = X * 0", "k = 0", "loss = inf"]
    outputs: [{first: "k + 1"}]
  - task: other
    node: b
    steps: ["v = rng.normal(size=3)"]
epoch:
  - task: step
    node: a
    steps:
      - w += rng.normal(size=12) * X
      - k = k + 1
      - loss = sum(w * w) / k
    outputs: [{top: "max(w)"}]
  - task: stir
    node: b
    steps: ["v = v * 0.5 + rng.normal(size=3)"]
exit:
  - task: export
    node: a
    steps:
      - best = step.top + start.first
      - save: {w: "${run.dir}/artifacts/w.npy", best: "${run.dir}/artifacts/best.npy"}
metrics: {loss: loss}
stop: [{epochs: 4}]
"""


class WalkJob:
    """The job "walk" in a folder with its spec and its runs."""

    def __init__(self, folder: Path, *edits: tuple[str, str]) -> None:
        self.folder = folder
        self.run_dir = folder / "runs"
        self.spec = folder / "walk.yaml"
        self.events: list[object] = []
        self.edit(*edits)

    def edit(self, *edits: tuple[str, str]) -> None:
        """Write the spec with texts replaced."""
        text = SPEC
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        if "checkpoint:" not in text:
            # Each epoch, however slow the disk is.
            text += "checkpoint: {every: 1ep}\n"
        self.folder.mkdir(exist_ok=True)
        self.spec.write_text(text)

    def line(self, fault) -> str:
        """Return the line of the spec that a fault points at."""
        return self.spec.read_text().splitlines()[fault.where.line - 1]

    def options(self, **options) -> RunOptions:
        return RunOptions(run_dir=self.run_dir, **options)

    def load(self, overrides=()):
        loaded = load_spec(str(self.spec), overrides=overrides)
        return loaded, compile_job(loaded).job

    def start(self, **options) -> RunResult:
        return start_run(*self.load(), self.options(**options), self.events.append)

    def policy(self, resume="", **options) -> RunResult:
        options = self.options(**options)
        return run_with_policy(*self.load(), options, self.events.append, resume)

    def resume(self, loaded=None, **options) -> RunResult:
        options = self.options(**options)
        return resume_run(self.run, options, self.events.append, loaded=loaded)

    @property
    def run(self) -> Run:
        """Return the newest run."""
        run = newest_run(self.run_dir, "walk")
        assert run is not None
        return run

    @property
    def runs(self) -> tuple[Run, ...]:
        return runs(self.run_dir)

    @property
    def store(self) -> DirectoryStore:
        return DirectoryStore(str(self.run.path / "checkpoints"))

    def state(self, epoch: int) -> dict[str, object]:
        """Return every blob of an epoch, by node and name, as kind, dtype, shape and bits."""
        manifest = self.store.manifest(epoch)
        state = {}
        for file in manifest.files:
            names = {"a": ("w", "k", "loss"), "b": ("v",)}[file.node]
            values = read_state(
                str(Path(self.store.path(epoch), file.name)),
                node=file.node,
                epoch=epoch,
                run_id=manifest.run_id,
                digest=file.digest,
                names=names,
            )
            state |= {f"{file.node}.{name}": bits(value) for name, value in values.items()}
        return state

    def artifacts(self) -> dict[str, bytes]:
        folder = self.run.path / "artifacts"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def outcome(self) -> tuple[object, ...]:
        """Return everything that two runs must have in common to be the same run."""
        epochs = self.store.epochs()
        states = {epoch: self.state(epoch) for epoch in epochs}
        metrics = (self.run.path / "metrics.jsonl").read_text().count('"event": "Measured"')
        return epochs, states, self.artifacts(), metrics

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.support.resumable_job", str(self.folder), *arguments]

    def process(self, *arguments: str, crash: str = "", **more) -> subprocess.CompletedProcess:
        """Run with a policy in a process of its own, to its end or to a crash point."""
        environment = {**os.environ, "JOBRUN_CRASHPOINT": crash}
        words = [str(self.folder), *arguments]
        return run_module(
            "tests.support.resumable_job", words, cwd=ROOT, environment=environment, **more
        )


def bits(value) -> tuple[object, ...]:
    if hasattr(value, "dtype"):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def main(folder: str, resume: str, epoch: str = "") -> int:
    """Run with a policy, or resume from an epoch."""
    job = WalkJob.__new__(WalkJob)
    job.folder, job.events = Path(folder), []
    job.run_dir, job.spec = Path(folder, "runs"), Path(folder, "walk.yaml")
    try:
        result = job.resume(epoch=int(epoch)) if epoch else job.policy(resume)
    except JobrunError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
