"""Looks at what power cuts may leave of a recorded run: is all there that was promised?

::

    for each moment of the recording, for each state that the model allows (see ``states``):
        make a directory that holds the state
        the judge looks at it
        jobrun recovers it; now and then it resumes it to the end
        the judge looks again: all there still, and the choice right?
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.durability.disk import Crash, Disk, Model
from tests.durability.promises import Promise, Promises
from tests.durability.scenarios import ALL_WITHIN, AUTO, KEEP_ALL, TINY, Recording, Work
from tests.durability.state_sampling import sampled, signature, telling
from tests.support.command import ROOT, environment
from tests.support.faults import FaultLab
from tests.support.run_judge import Reference, reference_of, unfinished
from tests.support.stored_runs import only_run

_BATCH = 64


@dataclass
class Found:
    """What an exploration has found.

    Attributes:
        states: How many different ones were looked at.
        resumed: How many of them were resumed to the end.
        faults: What was wrong, with where.
    """

    states: int = 0
    resumed: int = 0
    faults: list[str] = field(default_factory=list)

    def __iadd__(self, other: Found) -> Self:
        self.states += other.states
        self.resumed += other.resumed
        self.faults += other.faults
        return self


@dataclass(frozen=True)
class _Case:
    """A state that has been made: where it is, what it came from, what it must hold."""

    path: Path
    description: str
    promise: Promise
    kept_in: str = ""

    def asked(self, **more: Any) -> dict[str, Any]:
        """As the judge is asked."""
        names = ("whole", "over", "damaged", "copied")
        promise = {name: sorted(getattr(self.promise, name)) for name in names}
        within = list(self.promise.within)
        return {
            "path": str(self.path),
            "kept_in": self.kept_in,
            "within": within,
            **promise,
            **more,
        }


class Explorer:
    """Explores recordings of the scenarios. A context manager: two processes wait in it.

    Args:
        lab: Runs commands.
        scratch: A directory on a disk of memory, if there is one.
    """

    def __init__(self, lab: FaultLab, scratch: Path) -> None:
        self._lab = lab
        self._scratch = Path(tempfile.mkdtemp(dir=scratch)).resolve()
        self._servers: dict[tuple[str, ...], subprocess.Popen[str]] = {}
        self._references: dict[str, Path] = {}
        self.reference = Reference({}, {})

    def __enter__(self) -> Self:
        self.reference = reference_of(self._unbroken(TINY))
        return self

    def _unbroken(self, work: Work) -> Path:
        """An undisturbed run that keeps all that it saves; of one of the same values if need be."""
        work = work.like or work
        if work.spec not in self._references:
            whole = self._scratch / f"reference-{len(self._references)}"
            whole.mkdir()
            work.write(whole)
            done = self._lab.run(*AUTO, *KEEP_ALL, below=whole, patches=(ALL_WITHIN,))
            assert done.code == 0, done.stderr
            self._references[work.spec] = only_run(whole / "runs")
        return self._references[work.spec]

    def _judging(self, work: Work) -> tuple[str, ...]:
        return ("tests.durability.crash_state_judge", str(self._unbroken(work)))

    def __exit__(self, *error: object) -> None:
        for server in self._servers.values():
            server.communicate()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def explore(
        self,
        recording: Recording,
        model: Model,
        seed: int = 0,
        *,
        samples: int = 4,
        stride: int = 1,
        resume_every: int = 0,
        most: int = 1 << 62,
        first_fault_only: bool = False,
        patches: Sequence[str] = (),
        seen: set[tuple[int, Promise]] | None = None,
    ) -> Found:
        """Look at the states of a recording.

        Args:
            recording: The recording.
            model: What a power cut may leave.
            seed: Of all that is chosen at random.
            samples: States chosen at random after each call, beside the telling ones.
            stride: Of the telling states one of so many.
            resume_every: Of the states one of so many is resumed to the end; 0 for none.
            most: States at most.
            first_fault_only: Return as soon as something is wrong.
            patches: ``module:function`` each, of the process that recovers.
            seen: States that have been looked at before; those of this time are added.
        """
        result = Found()
        recovering = ("tests.durability.recovery_process", *patches)
        chosen = random.Random(f"{seed} {recording.scenario.name} {model}")
        batch: list[_Case] = []
        known = set() if seen is None else seen
        for disk, crash, promise, description in _states(
            recording, model, (samples, stride), chosen, known
        ):
            path = self._scratch / f"state-{len(batch)}"
            disk.write(crash, path)
            where = f"{recording.scenario.name}, {model}: {description}"
            batch.append(_Case(path, where, promise, recording.scenario.work.kept_in))
            if len(batch) == _BATCH:
                self._look(batch, result, recovering, resume_every, recording.scenario.work)
                batch = []
            if result.states + len(batch) >= most or (first_fault_only and result.faults):
                break
        self._look(batch, result, recovering, resume_every, recording.scenario.work)
        return result

    def judged(self, folder: Path, promise: Promise) -> list[str]:
        """What is wrong with a directory, as it is; nothing recovers it."""
        faults: list[str] = self._ask(self._judging(TINY), [_Case(folder, "", promise).asked()])[0]
        return faults

    def _look(
        self,
        batch: list[_Case],
        result: Found,
        recovering: tuple[str, ...],
        resume_every: int,
        work: Work,
    ) -> None:
        if not batch:
            return
        judging = self._judging(work)
        before = self._ask(judging, [case.asked() for case in batch])
        chosen = self._ask(recovering, [str(case.path) for case in batch])
        cases = [
            case.asked(**faults_before) for case, faults_before in zip(batch, chosen, strict=True)
        ]
        after = self._ask(judging, cases)
        for case, faults_before, faults_after in zip(batch, before, after, strict=True):
            result.states += 1
            result.faults += [
                f"{case.description}: {text}"
                for text in dict.fromkeys([*faults_before, *faults_after])
            ]
            if (
                resume_every
                and result.states % resume_every == 0
                and not (faults_before or faults_after)
            ):
                result.resumed += 1
                result.faults += [
                    f"{case.description}: resumed, {text}" for text in self._resumed(case, work)
                ]
            shutil.rmtree(case.path)

    def _resumed(self, case: _Case, work: Work) -> list[str]:
        done = self._lab.run(*AUTO, below=case.path)
        if done.code != 0:
            return [f"it ends with {done.code}: {done.stderr}"]
        (run,) = (
            path
            for path in (case.path / "runs").glob("*/*")
            if (path / "run.json").exists() and not path.is_symlink()
        )
        root = case.path / work.kept_in / run.parent.name / run.name if work.kept_in else None
        return unfinished(run, reference_of(self._unbroken(work)), root)

    def _ask(self, command: tuple[str, ...], question: object) -> Any:
        server = self._servers.get(command) or self._start(command)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(question) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "a server of the explorer has died"
        return json.loads(answer)

    def _start(self, command: tuple[str, ...]) -> subprocess.Popen[str]:
        server = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._servers[command] = server
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        return server


def _states(
    recording: Recording,
    model: Model,
    density: tuple[int, int],
    chosen: random.Random,
    seen: set[tuple[int, Promise]],
) -> Iterator[tuple[Disk, Crash, Promise, str]]:
    """Different states, with what must be there and where in the recording they are."""
    samples, stride = density
    disk = copy.deepcopy(recording.starts[model])
    promises = Promises(recording.scenario.promised, recording.scenario.work.retained)
    count = 0
    for number, change in enumerate(recording.changes):
        disk.apply(change)
        promises.see(change, disk.name_of(change))
        if number + 1 < recording.begin:
            continue
        corners = [
            crash_state
            for at, crash_state in enumerate(telling(disk, model))
            if (at + count) % stride == 0
        ]
        count += 1
        for crash in (*corners, *sampled(disk, model, chosen, samples)):
            key = signature(disk, crash), promises.now
            if key not in seen:
                seen.add(key)
                subject = change.other or change.path or disk.name_of(change)
                yield disk, crash, promises.now, f"call {number} ({change.kind} {subject}), {crash}"


@contextlib.contextmanager
def on_a_disk_of_memory(otherwise: Path) -> Iterator[Path]:
    """A new directory in memory, or below ``otherwise`` where there is none; is removed."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK | os.X_OK) else otherwise
    folder = Path(tempfile.mkdtemp(prefix="jobrun-states-", dir=parent)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def differences(recording: Recording) -> list[str]:
    """Where the recorded calls, all carried out, do not lead to what is there: none, if all is
    recorded."""
    disk = copy.deepcopy(recording.starts["weak"])
    for change in recording.changes:
        disk.apply(change)
    crash = Crash(frozenset(range(len(disk.pending))))
    modelled = {
        path: b"" if path.endswith("/") else disk.content(number)
        for path, number, _ in disk.files(crash)
    }
    real = {
        f"{path.relative_to(recording.folder)}{'/' if _is_folder(path) else ''}": (
            b"" if _is_folder(path) or path.is_symlink() else path.read_bytes()
        )
        for path in recording.folder.rglob("*")
    }
    return sorted(
        f"{path}: {len(modelled.get(path, b''))} and {len(real.get(path, b''))} bytes"
        for path in {*modelled, *real}
        if modelled.get(path) != real.get(path)
    )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
