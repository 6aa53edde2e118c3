"""Commands that copy, fork, prune or remove, killed at one of their calls: no run is the worse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.faults import Fault, FaultLab
from tests.support.stored_runs import blobs, epochs
from tests.support.walk_spec import SPEC

COMMANDS = {
    "fork": ("fork", "RUN", "-q", "--max-epochs", "1"),
    "copy": ("ckpt", "copy", "RUN@latest", "copy"),
    "prune": ("ckpt", "prune", "RUN", "--last", "2"),
    "remove": ("runs", "remove", "RUN", "--unfinished", "--yes"),
}
# Calls that change what is on the disk. An open does so only where it makes a file that stays.
CHANGING = {"write", "rename", "mkdir", "unlink", "ftruncate", "symlink"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with FaultLab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


class Killing:
    """One command, killed at one call in a copy of a folder with a stopped run of six epochs."""

    def __init__(self, lab: FaultLab, folder: Path, name: str) -> None:
        self.lab, self.folder, self.name = lab, folder, name
        self.whole = folder / "whole"
        self.whole.mkdir()
        text = SPEC.replace("epochs: 4", "epochs: 8").replace("1ep}", "1ep, keep: {last: 4}}")
        (self.whole / "walk.yaml").write_text(text)
        done = lab.run("run", "walk.yaml", "-q", "--max-epochs", "6", below=self.whole)
        assert done.code == 75, done.stderr
        (run,) = (
            candidate
            for candidate in (self.whole / "runs/walk").iterdir()
            if not candidate.is_symlink()
        )
        self.run_name = run.name
        self.words = [word.replace("RUN", f"walk/{run.name}") for word in COMMANDS[name]]
        self.expected = {number: blobs(path) for number, path in epochs(run).items()}
        counting = self.copy_folder("counted")
        counted = lab.run(*self.words, below=counting, log=True)
        assert counted.code in (0, 75), counted.stderr
        self.places, seen = [1], {counting / path.relative_to(self.whole)
                                  for path in self.whole.rglob("*")}  # fmt: skip
        for nth, (call, name) in enumerate(counted.calls[:-1], 1):
            path = Path(name)
            if "epoch-000007" in name:
                break  # from here on a fork is killed as any run is
            if call in CHANGING or (call == "open" and path not in seen and path.exists()):
                self.places.append(nth + 1)
            seen.add(path)
        assert len(self.places) > 8

    def copy_folder(self, name: str) -> Path:
        copy = self.folder / name
        shutil.copytree(self.whole, copy, symlinks=True)
        return copy

    def wrong(self, nth: int) -> list[str]:
        """What is wrong after a kill right before the n-th call."""
        copy = self.copy_folder(f"killed-{nth}")
        fault = Fault("any", nth, "kill-before")
        killed = self.lab.run(*self.words, below=copy, fault=fault)
        faults = [] if killed.code == -9 else [f"it was not killed: {killed.code}"]
        run = copy / "runs" / "walk" / self.run_name
        if run.is_dir():
            faults += self._kept(copy, run)
        elif self.name != "remove":
            faults.append("the run is gone")
        if self.name == "copy" and (copy / "copy").exists():
            faults += self._ends(copy, 0, "ckpt", "verify", "copy")
            faults += self._ends(copy, 75, "resume", "copy", "-q", "--max-epochs", "1")
        elif self.name != "fork" and run.is_dir():
            faults += self._ends(copy, 0, *self.words)
        shutil.rmtree(copy)
        return [f"killed at call {nth}: {words}" for words in faults]

    def _kept(self, copy: Path, run: Path) -> list[str]:
        held = {number: blobs(path) for number, path in epochs(run).items()}
        expected = {number: self.expected[number] for number in held}
        least = {"prune": {5, 6}, "remove": {6}}.get(self.name, {*self.expected})
        faults = [] if held == expected and least <= {*held} else ["an epoch is lost or other"]
        faults += self._ends(copy, 0, "ckpt", "verify", f"walk/{self.run_name}")
        if self.name == "remove":
            return faults
        faults += self._ends(copy, 75, "run", "walk.yaml", "--resume", "auto", "--max-epochs", "1")
        return faults + self._ends(copy, 0, "resume", f"walk/{self.run_name}", "-q")

    def _ends(self, copy: Path, code: int, *words: str) -> list[str]:
        done = self.lab.run(*words, below=copy)
        return [] if done.code == code else [f"{words} ends with {done.code}: {done.stderr}"]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_kill_at_any_call_of_a_command_leaves_its_run_intact(lab, tmp_path, name):
    """A kill before each call that finds another state on the disk than the call before it."""
    killing = Killing(lab, tmp_path, name)

    assert [words for nth in killing.places for words in killing.wrong(nth)] == []
