"""Kills runs by the hundred: at named places, at random instants, and their resumes too.

Each kill is a SIGKILL that has ended a process; one that came too late is not counted. After each
of them, and at the end, another process with a reader of its own says whether anything is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from jobrun.runner.rundir.run_directories import Run
from jobrun.tools.prove.fork_server import ForkClient
from jobrun.tools.prove.judge import Difference
from jobrun.tools.prove.trials import (
    Outcome,
    Reference,
    Trial,
    plan_trials,
    run_trial,
    run_unbroken,
)
from tests.durability.kill_scenarios import SCENARIOS, Scenario
from tests.support.forked_commands import ROOT

_PRELOAD = (
    "numpy", "numpy.random", "h5py", "jobrun.runner.invocation", "jobrun.cli.jobs.run",
    "jobrun.compile.pipeline", "jobrun.session.threads.session", "jobrun.session.threads.session",
    "jobrun.runtime.steps.run_program",
)  # fmt: skip
# A kill leaves a file system as it is, whichever it is; without a disk it comes sooner.
_MEMORY = Path("/dev/shm")
_BATCH = 50


@dataclass(frozen=True)
class Row:
    """What came of one scenario.

    Attributes:
        name: Of the scenario.
        copies: How many runs were killed and resumed to their end.
        kills: How many kills have landed.
        bad: What went wrong, in words.
    """

    name: str
    copies: int
    kills: int
    bad: tuple[str, ...]


class Judge:
    """Asks the process that judges."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, *question: object) -> str:
        """Its words; empty when all is well."""
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        pipe_in.write(
            json.dumps([str(part) if isinstance(part, Path) else part for part in question])
        )
        pipe_in.write("\n")
        pipe_in.flush()
        answer: str = json.loads(pipe_out.readline())
        return answer


@contextmanager
def judge() -> Iterator[Judge]:
    """One, until the end of the context."""
    command = [sys.executable, "-m", "tests.durability.kill_judge"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Judge(process)


def kill(name: str, wanted: int, seed: int = 0) -> Row:
    """Kill copies of one scenario until so many kills have landed."""
    scenario = SCENARIOS[name]
    beneath = _MEMORY if _MEMORY.is_dir() and not scenario.on_disk else None
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=beneath)).resolve()
    try:
        with judge() as judging, _forge() as forge:
            return _Killing(name, scenario, folder, judging, forge).run(wanted, seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kills(count: int, seed: int = 0, tell: Callable[[Row], None] = lambda _: None) -> list[Row]:
    """Kill copies of all scenarios, in turn as many of each; two scenarios at a time."""
    share = -(-count // len(SCENARIOS))

    def run_scenario(name: str) -> Row:
        row = kill(name, share, seed)
        tell(row)
        return row

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(run_scenario, SCENARIOS))


def _forge() -> ForkClient:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("JOBRUN_")
    }
    return ForkClient("jobrun", _PRELOAD, variables | {"JOBRUN_UNGUARDED": "1"})


class _Killing:
    def __init__(
        self, name: str, scenario: Scenario, folder: Path, judging: Judge, forge: ForkClient
    ) -> None:
        self._name = name
        self._folder = folder
        self._judge = judging
        self._forge = forge
        self._retained = scenario.retained
        whole, killed = scenario.write(folder / "spec")
        # With every epoch, to know what each of them must hold.
        keeping = run_unbroken(forge, _command(whole), folder / "whole")
        self._reference = keeping.run.path
        self._command = _command(killed)
        self._unbroken: Reference = run_unbroken(forge, self._command, folder / "unbroken")

    def run(self, wanted: int, seed: int) -> Row:
        copies = landed = 0
        bad: list[str] = []
        for batch in count(seed * 1_000_003):
            for trial in plan_trials(self._unbroken.course, _BATCH, batch):
                outcome = self._one(trial, self._folder / f"copy-{copies}")
                copies += 1
                landed += sum(outcome.landed)
                if not outcome.good:
                    bad.append(f"{outcome.trial}: {_words(outcome)}")
                if landed >= wanted or len(bad) > 5:
                    return Row(self._name, copies, landed, tuple(bad))
        raise AssertionError

    def _one(self, trial: Trial, folder: Path) -> Outcome:
        shutil.rmtree(self._folder / "spec" / "copies", ignore_errors=True)
        outcome = run_trial(
            self._forge, trial, self._unbroken, self._command, folder, self._unlike, self._lost
        )
        shutil.rmtree(folder)
        return outcome

    def _lost(self, folder: Path) -> str:
        return self._judge.ask("lost", self._reference, folder, self._retained)

    def _unlike(self, unbroken: Run, run: Run) -> Difference | None:
        words = self._judge.ask("unlike", self._reference, unbroken.path, run.path)
        return Difference(words) if words else None


def _command(spec: Path) -> list[str]:
    return ["run", str(spec), "--resume", "auto", "--quiet"]


def _words(outcome: Outcome) -> str:
    return (
        outcome.lost or outcome.failure or (outcome.difference.words if outcome.difference else "")
    )
