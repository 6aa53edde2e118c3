"""Run jobs of the conformance cases: group by group in a session, or whole by the runner."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.compile.pipeline import compile_job
from jobrun.core.events import Event, GroupStarted, Logged
from jobrun.graph.types import Job
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.rundir.run_directories import Run, open_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.session.base import RunContext, open_session
from jobrun.spec.load import LoadedSpec, load_spec
from tests.support.stored_runs import blobs

# The cases hold in every session; a test runs all of them in another one.
SESSION = os.environ.get("CONFORMANCE_SESSION", "threads")
# What the jobs call. Threads meet through files, so no case depends on how fast anything is.
LIBRARY = '''\
"""What the jobs of the conformance cases call."""

import pathlib
import queue
import time


def touch(path):
    pathlib.Path(path).touch()


def wait_for(path):
    for _ in range(10_000):
        if pathlib.Path(path).exists():
            return
        time.sleep(0.001)
    raise TimeoutError(path)


def meet(run_dir, instance, parties):
    touch(f"{run_dir}/instance-{instance}")
    for number in range(parties):
        wait_for(f"{run_dir}/instance-{number}")


def fail(text):
    raise ValueError(text)


def make_queue():
    return queue.SimpleQueue()
'''


class Watched:
    """A spec on disk beside its library, and all events while it runs."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.path = folder / "job.yaml"
        self.path.write_text("jobrun: 1\nname: job\n" + dedent(text))
        (folder / "library.py").write_text(LIBRARY)
        self.events: list[Event] = []
        self._lock = threading.Lock()

    def listen(self, event: Event) -> None:
        """Record an event; called from the tasks' threads."""
        with self._lock:
            self.events.append(event)

    def load(self) -> LoadedSpec:
        return load_spec(str(self.path))

    def compile(self) -> Job:
        return compile_job(self.load()).job

    @property
    def messages(self) -> list[str]:
        """Return the texts of all log steps so far, in their order."""
        return [event.text for event in self.events if isinstance(event, Logged)]

    def forget(self) -> None:
        """Drop the events so far."""
        self.events.clear()


class Stage(Watched):
    """A job in an open session, whose groups are run one at a time and not settled."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder, text)
        self.job = self.compile()
        self.session = open_session(SESSION)
        self._outputs: dict[Any, Any] = {}
        run_dir = folder / "run"
        run_dir.mkdir()
        context = RunContext(self.job.seed, str(run_dir), str(folder), self.listen)
        self.session.open(self.job.cluster, context)

    def run(self, *names: str, epoch: int = 1) -> dict[str, Any]:
        """Run groups in order; return the outputs of all of them, as ``task.output``."""
        groups = {group.name: group for group in self.job.groups}
        found: dict[str, Any] = {}
        for name in names:
            number = 0 if name == "init" else epoch
            made = self.session.run(groups[name], number, self._outputs)
            self._outputs |= made
            found |= {str(ref): value for ref, value in made.items()}
        return found

    def names(self, node: str = "local") -> tuple[str, ...]:
        """Return the names in the node's global workspace."""
        return self.session.names(node)

    def value(self, name: str, node: str = "local") -> Any:
        return self.session.read(node, (name,))[name]


class Trial(Watched):
    """A job run by the runner, with a run directory, checkpoints and resumes."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder, text)
        self._path: Path | None = None

    def start(self, **options: Any) -> RunResult:
        loaded = self.load()
        chosen = RunOptions(run_dir=self.folder / "runs", session=SESSION, **options)
        return start_run(loaded, compile_job(loaded).job, chosen, self.listen)

    def resume(self, epoch: int | None = None, **options: Any) -> RunResult:
        """Resume with the recorded spec, from an epoch or from the newest."""
        chosen = RunOptions(run_dir=self.folder / "runs", epoch=epoch, session=SESSION, **options)
        return resume_run(self.run, chosen, self.listen)

    @property
    def run(self) -> Run:
        """Return the only run."""
        (path,) = (one for one in (self.folder / "runs" / "job").glob("2*") if one.is_dir())
        return open_run(path)

    @property
    def store(self) -> DirectoryStore:
        return DirectoryStore(str(self.run.path / "checkpoints"))

    @property
    def groups(self) -> list[str]:
        """Return the groups that were started, in their order."""
        return [event.group for event in self.events if isinstance(event, GroupStarted)]

    def epochs_run(self) -> int:
        """Count the epoch groups that were started since ``forget``."""
        return self.groups.count("epoch")

    def state(self, epoch: int) -> dict[str, Any]:
        """Return all blobs of an epoch, as ``node.blob``; the names are those of the files."""
        manifest = self.store.manifest(epoch)
        folder = Path(self.store.path(epoch))
        names = [unquote(key).split(":/blobs/") for key in blobs(folder)]
        found: dict[str, Any] = {}
        for file in manifest.files:
            wanted = tuple(name for node, name in names if node == file.node)
            values = read_state(
                str(folder / file.name),
                node=file.node,
                epoch=epoch,
                run_id=manifest.run_id,
                digest=file.digest,
                names=wanted,
            )
            found |= {f"{file.node}.{name}": value for name, value in values.items()}
        return found
