"""Runs whose calls are recorded: commits, retention, files used again, resumes, steps back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.durability.disk import Disk, Model
from tests.durability.promises import NOTHING, Promise
from tests.support.call_recorder import Change, read_changes
from tests.support.faults import Fault, FaultLab
from tests.support.stored_runs import epochs, only_run

SPEC = """\
jobrun: 1
name: tiny
seed: 3
nodes: {left: {}, right: {}}
init:
  - {task: first, node: left, steps: ["w = zeros(8)"]}
  - {task: second, node: right, steps: ["v = ones(4)"]}
epoch:
  - {task: one, node: left, steps: ["w += rng.normal(size=8)"]}
  - {task: two, node: right, steps: ["v += rng.normal(size=4)"]}
exit: [{task: out, node: left, steps: [{save: {w: "${run.dir}/artifacts/w.npy"}}]}]
metrics: {top: max(w)}
stop: [{epochs: 5}]
checkpoint: {every: 1ep, keep: {last: 2}}
"""
KEPT = 2
WITHIN = """\
jobrun: 1
name: tiny
seed: 5
readers: {train: {npy: data.npy, fields: [x], batch: 3, shuffle: true}}
init: [{task: start, steps: ["w = zeros(2)", "n = 0"]}]
epoch:
  - {task: fit, read: train, steps: ["w += x[0] * rng.random()", "n = n + len(x)"]}
exit: [{task: out, steps: [{save: {w: "${run.dir}/artifacts/w.npy"}}]}]
metrics: {top: max(w)}
stop: [{epochs: 3}]
checkpoint: {every: 3 records}
"""
AUTO = ("run", "tiny.yaml", "--resume", "auto")
KEEP_ALL = ("--set", "checkpoint.keep.last=1000")
_OTHERS = "tests.durability.mutants"
SPARES = f"{_OTHERS}:small_files_are_used_again"
PAST_THE_CACHE = f"{_OTHERS}:small_files_are_written_past_the_cache"
OTHER_DISK = f"{_OTHERS}:kept_is_another_file_system"
ALL_WITHIN = f"{_OTHERS}:all_within_epochs_is_kept"


@dataclass(frozen=True)
class Work:
    """What is run, and where its epochs go.

    Attributes:
        spec: Of a job called ``tiny``.
        retained: How many of the newest epochs are kept.
        kept_in: The directory beside the spec that holds the epochs; empty: they are in the run.
        data: The file ``data.npy`` beside the spec, if it reads one.
        like: One that makes the same values, and keeps them in the run.
    """

    spec: str
    retained: int = KEPT
    kept_in: str = ""
    data: np.ndarray | None = None
    like: Work | None = None

    def write(self, folder: Path) -> None:
        """Write the spec and what it reads."""
        (folder / "tiny.yaml").write_text(self.spec)
        if self.data is not None:
            np.save(folder / "data.npy", self.data)


TINY = Work(SPEC)
_KEEP = "checkpoint: {every: 1ep, keep: {last: 2}"
ELSEWHERE = Work(SPEC.replace(_KEEP, f"{_KEEP}, dir: kept"), kept_in="kept", like=TINY)
COPIED = Work(
    SPEC.replace(_KEEP, f"{_KEEP}, upload: {{to: copies, when: committed, required: true}}"),
    like=TINY,
)
# The nodes' own files are not on the disk that is looked at.
COLLECTED = Work(SPEC.replace(_KEEP, f"{_KEEP}, node_dir: /var/tmp, collect: master"), like=TINY)
BETWEEN_RECORDS = Work(WITHIN, retained=1_000, data=np.arange(46.0).reshape(23, 2) / 7)


@dataclass(frozen=True)
class Scenario:
    """What is done, and from when on it may be cut.

    Attributes:
        name: Of the scenario.
        before: Arguments and fault of what is done before, without being recorded.
        damage: Done to the run after that.
        first: The same as ``command``, for what is recorded, but not cut.
        command: What is recorded, and cut.
        promised: What holds when the recording begins.
        patches: Of the process that runs.
        work: What is run.
    """

    name: str
    command: tuple[str, ...] = AUTO
    before: tuple[str, ...] = ()
    damage: Callable[[Path], None] | None = None
    first: Fault | None = None
    promised: Promise = NOTHING
    patches: tuple[str, ...] = ()
    work: Work = TINY


@dataclass(frozen=True)
class Recording:
    """A scenario that was carried out.

    Attributes:
        starts: The disk before the first call, by model; to be copied before it is used.
        folder: The directory after the last.
        changes: What was done in between.
        begin: How many of the changes belong to what is not cut.
    """

    scenario: Scenario
    starts: dict[Model, Disk]
    folder: Path
    changes: tuple[Change, ...]
    begin: int


def _damage_newest(folder: Path) -> None:
    run = only_run(folder / "runs")
    elsewhere = folder / "kept" / run.parent.name / run.name
    epoch_paths = epochs(run, elsewhere if elsewhere.is_dir() else None)
    path = max(epoch_paths.items())[1] / "left.h5"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


_THREE = (*AUTO, "--max-epochs", "3")
_SAVED = Promise(whole=frozenset({0, 2, 3}))
SCENARIOS = (
    Scenario("commit"),
    Scenario("recycling", patches=(SPARES,)),
    Scenario(
        "killed after a rename",
        first=Fault("rename", 1, "kill-after", path="/epoch-000002"),
    ),
    Scenario(
        "killed in retention",
        first=Fault("unlink", 2, "kill-after", path="/.del-"),
        patches=(SPARES,),
    ),
    Scenario(
        "killed after a removal's rename",
        first=Fault("rename", 1, "kill-after", path="/.del-"),
    ),
    Scenario(
        "killed after setting aside",
        before=_THREE,
        damage=_damage_newest,
        first=Fault("rename", 1, "kill-after", path="/superseded/"),
        promised=Promise(whole=frozenset({0, 2}), damaged=frozenset({3})),
    ),
    Scenario(
        "newest damaged",
        before=_THREE,
        damage=_damage_newest,
        promised=Promise(whole=frozenset({0, 2}), damaged=frozenset({3})),
    ),
    Scenario("back to epoch 2", ("resume", "tiny", "--epoch", "2"), before=_THREE, promised=_SAVED),
    Scenario("killed after a directory was made", first=Fault("mkdir", 2, "kill-after")),
    Scenario("within epochs", work=BETWEEN_RECORDS),
    Scenario(
        "killed within an epoch",
        first=Fault("rename", 2, "kill-after", path=".records-"),
        work=BETWEEN_RECORDS,
    ),
    Scenario("kept elsewhere", work=ELSEWHERE, patches=(OTHER_DISK,)),
    Scenario(
        "killed after a directory elsewhere was made",
        first=Fault("mkdir", 2, "kill-after", path="/kept/tiny/"),
        work=ELSEWHERE,
        patches=(OTHER_DISK,),
    ),
    Scenario(
        "newest damaged elsewhere",
        before=_THREE,
        damage=_damage_newest,
        promised=Promise(whole=frozenset({0, 2}), damaged=frozenset({3})),
        work=ELSEWHERE,
        patches=(OTHER_DISK,),
    ),
    Scenario("copied elsewhere", work=COPIED),
    Scenario(
        "killed after the place of copies was made",
        first=Fault("mkdir", 2, "kill-after", path="/copies/tiny/"),
        work=COPIED,
    ),
    Scenario(
        "killed after a copy's rename",
        first=Fault("rename", 6, "kill-after", path="/copies/"),
        work=COPIED,
    ),
    Scenario("each node a process", (*AUTO, "--session", "processes")),
    Scenario("collected from nodes", (*AUTO, "--session", "processes"), work=COLLECTED),
    Scenario("written past the cache", patches=(PAST_THE_CACHE,)),
)


def record(
    scenario: Scenario, lab: FaultLab, folder: Path, patches: tuple[str, ...] = ()
) -> Recording:
    """Carry out a scenario in a new directory.

    Args:
        scenario: The scenario.
        lab: Runs commands.
        folder: Is made; absolute, without links in its path.
        patches: Beside those of the scenario.
    """
    work_folder, log = folder / "place", folder / "log"
    work_folder.mkdir(parents=True)
    scenario.work.write(work_folder)
    if scenario.before:
        done = lab.run(*scenario.before, below=work_folder)
        assert done.code == 75, done.stderr
    if scenario.damage:
        scenario.damage(work_folder)
    starts: dict[Model, Disk] = {
        "weak": Disk(work_folder, "weak"),
        "ordered": Disk(work_folder, "ordered"),
    }
    used = (*scenario.patches, *patches)
    begin = 0
    log.touch()
    if scenario.first:
        done = lab.run(*AUTO, below=work_folder, fault=scenario.first, record=log, patches=used)
        assert done.code == -9, done.stderr
        begin = len(read_changes(log))
    with_nodes = "processes" in scenario.command
    done = lab.run(
        *scenario.command, below=work_folder, record=log, patches=used, with_nodes=with_nodes
    )
    assert patches or done.code == 0, done.stderr
    return Recording(scenario, starts, work_folder, tuple(read_changes(log)), begin)
