"""Whatever is done to a run, in whatever order: what is saved stays, and what goes on is right."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobrun.runner.rundir.journal import read_journal
from tests.support.faults import Fault, FaultLab
from tests.support.stored_runs import Stored, blobs, epochs, only_run
from tests.support.thinning import examples

SPEC = """\
jobrun: 1
name: tiny
seed: 3
init: [{{task: start, steps: ["w = zeros(8)"]}}]
epoch: [{{task: step, steps: ["w += rng.normal(size=8)"]}}]
metrics: {{top: max(w)}}
stop: [{{epochs: {epochs}}}]
checkpoint: {{keep: {{last: {last}}}}}
"""
MOST_EPOCHS = 12
FINISHED, STOPPED, UNUSABLE, KILLED = 0, 75, 4, -9
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
COUNTS = st.integers(1, 3)


class Bench:
    """A lab, a folder, and what each epoch must hold."""

    def __init__(self, lab: FaultLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        directory = self.make_folder(MOST_EPOCHS, last=1000)
        assert lab.run("run", "tiny.yaml", below=directory).code == FINISHED
        self.expected: dict[int, dict[str, Stored]] = {
            number: blobs(path) for number, path in epochs(only_run(directory / "runs")).items()
        }

    def make_folder(self, epochs: int, last: int = 2) -> Path:
        """A new directory with a spec of so many epochs."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "tiny.yaml").write_text(SPEC.format(epochs=epochs, last=last))
        return folder


class RunMachine(RuleBasedStateMachine):
    """A run, and a model of it: what was told to be saved, pinned, damaged, and is wanted."""

    bench: Bench

    @initialize()
    def begin(self):
        self.total, self.forks = 4, 0
        self.pinned: set[int] = set()
        self.damaged: dict[int, bytes] = {}
        self.folder = self.bench.make_folder(self.total)
        self._run(1)

    def teardown(self):
        shutil.rmtree(self.folder)

    @property
    def run(self) -> Path:
        return only_run(self.folder / "runs")

    @property
    def whole(self) -> list[int]:
        """The epochs that are there and were not damaged, ascending."""
        return [number for number in epochs(self.run) if number not in self.damaged]

    @rule(count=COUNTS)
    def go_on(self, count):
        self._run(count)

    @rule(call=st.integers(1, 400))
    def go_on_and_be_killed(self, call):
        """Wherever that is; perhaps after the end."""
        before = self.whole[-1]
        fault = Fault("any", call, "kill-after")
        ended = self._jobrun("run", "tiny.yaml", "--resume", "auto", fault=fault)
        assert ended.code in {KILLED, FINISHED}, ended.stderr
        # What is done again after a damaged epoch may have its number.
        self._settle()
        assert self.whole[-1] >= before

    @precondition(lambda self: len(self.whole) > 1)
    @rule(at=st.floats(0.0, 0.999), of_manifest=st.booleans())
    def damage_the_newest(self, at, of_manifest):
        newest = self.whole[-1]
        path = epochs(self.run)[newest] / ("manifest.json" if of_manifest else "local.h5")
        data = bytearray(path.read_bytes())
        data[int(at * len(data))] ^= 0x55
        path.write_bytes(data)
        self.damaged[newest] = bytes(data)

    @precondition(lambda self: len(self.whole) > 1 and not self.damaged)
    @rule()
    def lose_the_newest_and_be_refused(self):
        newest, older = self.whole[-1], self.whole[-2]
        # A killed run may leave an epoch that is in place and was not acknowledged yet.
        if read_journal(self.run, self._run_id()).newest < newest:
            return
        finished = self._is_finished()
        shutil.rmtree(epochs(self.run)[newest])
        refused = self._jobrun("run", "tiny.yaml", "--resume", "auto")
        assert refused.code == (FINISHED if finished else UNUSABLE), refused.stderr
        assert self.whole[-1] == older
        again = self._jobrun("resume", "tiny", "--epoch", str(older), "--max-epochs", "1")
        self.pinned.discard(newest)
        assert again.code in {STOPPED, FINISHED}, again.stderr

    @rule(more=COUNTS)
    def want_more_epochs(self, more):
        self.total = min(self.total + more, MOST_EPOCHS)
        (self.folder / "tiny.yaml").write_text(SPEC.format(epochs=self.total, last=2))

    @precondition(lambda self: not self.damaged)
    @rule()
    def pin_the_newest(self):
        newest = self.whole[-1]
        assert self._jobrun("ckpt", "pin", f"tiny@{newest}").code == 0
        self.pinned.add(newest)

    @rule()
    def prune(self):
        assert self._jobrun("ckpt", "prune", "tiny").code == 0

    # After its last epoch a fork would have nothing to run, and is refused.
    @precondition(lambda self: not self.damaged and self.whole[-1] < MOST_EPOCHS)
    @rule()
    def fork(self):
        self.forks += 1
        source = f"tiny@{self.whole[-1]}"
        ended = self._jobrun("fork", source, "--max-epochs", "1", "--epochs", str(MOST_EPOCHS))
        assert ended.code in {STOPPED, FINISHED}, ended.stderr
        (forked,) = (
            path.parent
            for path in (self.folder / "runs").glob("*/*/run.json")
            if not path.parent.is_symlink() and json.loads(path.read_bytes())["parent"]
        )
        for number, path in epochs(forked).items():
            assert blobs(path) == self.bench.expected[number]
        shutil.rmtree(forked)
        (self.folder / "runs" / "tiny" / "latest").unlink()

    @rule(number=st.integers(0, MOST_EPOCHS))
    def go_back(self, number):
        ended = self._jobrun("resume", "tiny", "--epoch", str(number), "--max-epochs", "1")
        if number not in self.whole:
            assert ended.code == UNUSABLE, ended.stderr
        else:
            assert ended.code in {STOPPED, FINISHED}, ended.stderr
            self.pinned = {epoch for epoch in self.pinned if epoch <= number}
            self._settle()

    @invariant()
    def what_is_there_is_what_was_saved(self):
        for number in self.whole:
            assert blobs(epochs(self.run)[number]) == self.bench.expected[number]

    @invariant()
    def what_is_pinned_and_the_first_is_there(self):
        assert {0, *self.pinned} - set(self.damaged) <= set(self.whole)

    @invariant()
    def what_is_damaged_is_not_deleted(self):
        contents = {path.read_bytes() for path in self.run.rglob("epoch-*/*") if path.is_file()}
        assert all(data in contents for data in self.damaged.values())

    def _run(self, count: int) -> None:
        """Go on by so many epochs, from the newest whole one."""
        newest = self.whole[-1] if (self.folder / "runs").is_dir() else 0
        finished = self._is_finished()
        ended = self._jobrun("run", "tiny.yaml", "--resume", "auto", "--max-epochs", str(count))
        assert ended.code in {STOPPED, FINISHED}, ended.stderr
        self._settle()
        if not finished:
            assert self.whole[-1] == min(newest + count, max(self.total, newest)), ended.stderr

    def _settle(self) -> None:
        """What is set aside is no epoch of the run any more."""
        there = set(epochs(self.run))
        aside = {path.read_bytes() for path in self.run.glob("superseded/**/epoch-*/*")}
        for number, data in list(self.damaged.items()):
            if data in aside or number not in there:
                del self.damaged[number]
                assert data in aside
                # A pin goes with the epoch; what has its number next was not pinned.
                self.pinned.discard(number)

    def _is_finished(self) -> bool:
        return (self.folder / "runs").is_dir() and self._record()["status"] == "finished"

    def _run_id(self) -> str:
        return self._record()["run_id"]

    def _record(self) -> dict[str, Any]:
        return json.loads((self.run / "run.json").read_bytes())

    def _jobrun(self, *arguments: str, fault: Fault | None = None):
        ended = self.bench.lab.run(*arguments, below=self.folder, fault=fault)
        assert "Traceback" not in ended.stderr, ended.stderr
        return ended


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine").resolve()
    with FaultLab(folder / "lab") as lab:

        class Machine(RunMachine):
            bench = Bench(lab, folder)

        yield Machine


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_event_orders_keep_the_promises_of_a_run(machine):
    run_state_machine_as_test(
        machine, settings=settings(SETTINGS, max_examples=examples(7), stateful_step_count=12)
    )
