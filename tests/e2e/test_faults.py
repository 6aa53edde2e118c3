"""The machine refuses at the N-th call: never success with less than promised, nothing lost."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults import CALLS, HUNG, READING, Ended, Fault, FaultLab, every
from tests.support.run_judge import (
    SPEC,
    Reference,
    acknowledged,
    reference_of,
    runs_in,
    unfinished,
    wrong,
)
from tests.support.stored_runs import only_run
from tests.support.thinning import thinned

KEEP_ALL = ("--set", "checkpoint.keep.last=1000")
RUN = ("run", "tiny.yaml", "--resume", "auto")
KEPT = 2
FREQUENT = [("fail", errno.ENOSPC), ("short", 0)]
# Handled like ENOSPC, so that some of the calls are enough for each; but after EIO nothing that
# was written is sure to be there.
RARE = [("fail", errno.EIO), ("fail", errno.EDQUOT), ("fail", errno.EROFS), ("fail", errno.EMFILE)]
SURE = ("write", "fsync")
# A kill before a call finds on the disk what one after the call before it finds; and fsync and
# close change nothing that a process could see.
CHANGING = [call for call in CALLS if call not in ("fsync", "close")]
KILLS = [("kill-after", 0)]


class Bench:
    """A lab, what an undisturbed run gives, and how many calls it makes."""

    def __init__(self, lab: FaultLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        whole = self.place("reference")
        done = lab.run(*RUN, *KEEP_ALL, below=whole)
        assert done.code == 0, done.stderr
        self.reference: Reference = reference_of(only_run(whole / "runs"))
        counted = lab.run(*RUN, below=self.place("counted"), log=True)
        assert counted.code == 0, counted.stderr
        self.counts: Counter[str] = counted.counts

    def place(self, name: str) -> Path:
        """A fresh folder with the spec in it."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "tiny.yaml").write_text(SPEC)
        return folder

    def met(self, fault: Fault, folder: Path) -> list[str]:
        """Run with the fault, then without: what went wrong, in words."""
        first = self.lab.run(*RUN, below=folder, fault=fault)
        faults = [*_words(first, killed="kill" in fault.action), *self._kept(folder)]
        if first.code == 0:
            faults += self._finished(folder)
        reported = {run.name: acknowledged(run) for run in runs_in(folder)}
        second = self.lab.run(*RUN, below=folder)
        if second.code != 0:
            faults.append(f"the resume ends with {second.code}: {second.stderr}")
        else:
            faults += self._finished(folder)
        for run in runs_in(folder):
            before = reported.get(run.name, [])
            if acknowledged(run)[: len(before)] != before:
                faults.append("the resume took an acknowledgement back")
        return [f"{fault}: {text}" for text in faults]

    def _kept(self, folder: Path) -> list[str]:
        return [
            text for run in runs_in(folder) for text in wrong(run, self.reference, count_kept=KEPT)
        ]

    def _finished(self, folder: Path) -> list[str]:
        saved = [run for run in runs_in(folder) if acknowledged(run)]
        if len(saved) != 1:
            return [f"there are {len(saved)} runs with saved epochs"]
        return unfinished(saved[0], self.reference)


def _words(ended: Ended, *, killed: bool) -> list[str]:
    """What is wrong with how a command ended."""
    if ended.code == HUNG:
        return ["it hangs"]
    if killed:
        return [] if ended.code in (-9, 0) else [f"it ends with {ended.code}"]
    faults = []
    if ended.code not in (0, 3, 7):
        faults.append(f"it ends with {ended.code}")
    if ended.code and "error[E" not in ended.stderr:
        faults.append("it says no error")
    if "Traceback" in ended.stderr or "E414" in ended.stderr:
        faults.append(f"it crashes: {ended.stderr}")
    return faults


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("faults")
    with FaultLab(folder / "scratch") as lab:
        yield Bench(lab, folder)


def _sweep(bench: Bench, faults: list[Fault]) -> None:
    assert faults
    wrongs = [text for fault in faults for text in bench.met(fault, bench.place("faulty"))]
    assert wrongs == []


@pytest.mark.long
def test_row_43_a_disk_that_stays_full_loses_nothing(bench):
    faults = every(bench.counts, [("fail", errno.ENOSPC)], onwards=True, names=("write",))
    _sweep(bench, faults[::31])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", CALLS)
def test_row_43_and_44_every_refused_call_loses_nothing(bench, call):
    frequent = [*FREQUENT, *RARE[:1]] if call in SURE else FREQUENT
    rare = [site for site in RARE if site not in frequent]
    _sweep(bench, every(bench.counts, frequent, names=(call,)))
    # One more than there are errors: each call in turn gets another one.
    _sweep(bench, every(bench.counts, rare, names=(call,))[:: len(rare) + 1])
    onwards = [FREQUENT[0], RARE[0]]
    _sweep(bench, every(bench.counts, onwards, onwards=True, names=(call,))[::3])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", CHANGING)
def test_row_80_killed_before_and_after_every_call_the_run_loses_nothing(bench, call):
    _sweep(bench, every(bench.counts, KILLS, names=(call,)))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_row_80_killed_and_killed_again_at_every_call_of_the_resume(bench):
    first = Fault("rename", bench.counts["rename"] // 2, "kill-after")
    folder = bench.place("counted")
    bench.lab.run(*RUN, below=folder, fault=first)
    counted = bench.lab.run(*RUN, below=folder, log=True)
    wrongs = []
    for fault in every(counted.counts, KILLS, names=CHANGING):
        folder = bench.place("faulty")
        bench.lab.run(*RUN, below=folder, fault=first)
        wrongs += bench.met(fault, folder)
    assert wrongs == []


def test_a_short_write_is_only_a_shorter_one(bench):
    folder = bench.place("short")
    ended = bench.lab.run(*RUN, below=folder, fault=Fault("write", 1, "short", onwards=True))

    assert ended.code == 0, ended.stderr
    assert unfinished(only_run(folder / "runs"), bench.reference) == []


def test_an_fsync_that_failed_is_not_asked_again(bench):
    folder = bench.place("fsync")
    fault = Fault("fsync", 1, "fail", errno.EIO, onwards=True, path="/checkpoints/.tmp-")
    ended = bench.lab.run(*RUN, below=folder, fault=fault, log=True)

    assert ended.code == 7, ended.stderr
    synced = Counter(path for call, path in ended.calls if call == "fsync" and ".h5" in path)
    assert set(synced.values()) == {1}
    assert len(synced) == 2  # a second stage, with a new file


@pytest.mark.long
@pytest.mark.parametrize("call", thinned(READING, 2))
def test_row_44_a_resume_that_cannot_read_falls_back_or_is_refused(bench, call):
    """Of every call that reads a checkpoint or a record, one in so many fails."""
    stopped = bench.place("stopped")
    assert bench.lab.run(*RUN, "--max-epochs", "2", below=stopped).code == 75
    counted = shutil.copytree(stopped, bench.folder / f"counted-{call}", symlinks=True)
    counts = bench.lab.run(*RUN, below=counted, log=True).counts
    for fault in every(counts, [("fail", errno.EIO)], names=(call,))[::5]:
        folder = bench.folder / "unreadable"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(stopped, folder, symlinks=True)

        ended = bench.lab.run(*RUN, below=folder, fault=fault)

        # With the default of two kept epochs the older one may be taken, never the start.
        assert ended.code in (0, 3, 4, 7), f"{fault}: {ended.stderr}"
        assert "Traceback" not in ended.stderr, f"{fault}: {ended.stderr}"
        assert "error[E" in ended.stderr or ended.code == 0
        if ended.code == 0:
            assert unfinished(only_run(folder / "runs"), bench.reference) == []
        again = bench.lab.run(*RUN, below=folder)
        assert again.code == 0, f"{fault}: {again.stderr}"
        assert unfinished(only_run(folder / "runs"), bench.reference) == []


def test_row_81_all_that_a_promise_rests_on_is_synced_before_it_is_made(bench):
    """In the order of the calls: files, stage, rename, directory, journal; each made durable."""
    ended = bench.lab.run(*RUN, below=bench.place("order"), log=True)
    assert ended.code == 0, ended.stderr
    loose: set[str] = set()
    faults, promises = [], 0
    for call, path in ended.calls:
        inside, name = path.rpartition("/checkpoints/")[1:]
        if call == "write" and (inside or path.endswith(("/committed.jsonl", "/run.json"))):
            if path.endswith("/committed.jsonl"):
                promises += 1
                faults += [f"{text} is not durable when it is promised" for text in loose]
            loose.add(path)
        elif call == "rename" and name.startswith("epoch-"):
            stage = path.replace(f"/{name}", "/.tmp-")
            faults += [
                f"{text} is not durable when it is renamed" for text in loose if stage in text
            ]
            loose.add(path.rpartition("/")[0])
        elif call == "open" and "/checkpoints/.tmp-" in path and path.endswith((".h5", ".json")):
            # Its name, which the sync of the staging directory makes durable.
            loose.add(path.rpartition("/")[0])
        elif call == "fsync":
            loose.discard(path)
    assert faults == []
    assert promises == 4
    assert loose == set()
