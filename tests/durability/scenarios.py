"""Runs whose calls are recorded: commits, retention, files used again, resumes, steps back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.durability.disk import Disk, Model
from tests.durability.promises import NOTHING, Promise
from tests.support.faults import Fault, FaultLab
from tests.support.recorder import Change, read_changes
from tests.support.stored import epochs, only_run

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
checkpoint: {keep: {last: 2}}
"""
KEPT = 2
AUTO = ("run", "tiny.yaml", "--resume", "auto")
KEEP_ALL = ("--set", "checkpoint.keep.last=1000")
SPARES = "tests.durability.mutants:small_files_are_used_again"


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
    """

    name: str
    command: tuple[str, ...] = AUTO
    before: tuple[str, ...] = ()
    damage: Callable[[Path], None] | None = None
    first: Fault | None = None
    promised: Promise = NOTHING
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    """A scenario that was carried out.

    Attributes:
        starts: The disk before the first call, by model; to be copied before it is used.
        place: The directory after the last.
        changes: What was done in between.
        begin: How many of the changes belong to what is not cut.
    """

    scenario: Scenario
    starts: dict[Model, Disk]
    place: Path
    changes: tuple[Change, ...]
    begin: int


def _damage_newest(place: Path) -> None:
    path = max(epochs(only_run(place / "runs")).items())[1] / "left.h5"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


_THREE = (*AUTO, "--max-epochs", "3")
_SAVED = Promise(kept=frozenset({0, 2, 3}))
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
        promised=Promise(kept=frozenset({0, 2}), damaged=frozenset({3})),
    ),
    Scenario(
        "newest damaged",
        before=_THREE,
        damage=_damage_newest,
        promised=Promise(kept=frozenset({0, 2}), damaged=frozenset({3})),
    ),
    Scenario("back to epoch 2", ("resume", "tiny", "--epoch", "2"), before=_THREE, promised=_SAVED),
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
    place, log = folder / "place", folder / "log"
    place.mkdir(parents=True)
    (place / "tiny.yaml").write_text(SPEC)
    if scenario.before:
        done = lab.run(*scenario.before, below=place)
        assert done.code == 75, done.stderr
    if scenario.damage:
        scenario.damage(place)
    starts: dict[Model, Disk] = {"weak": Disk(place, "weak"), "ordered": Disk(place, "ordered")}
    used = (*scenario.patches, *patches)
    begin = 0
    log.touch()
    if scenario.first:
        done = lab.run(*AUTO, below=place, fault=scenario.first, record=log, patches=used)
        assert done.code == -9, done.stderr
        begin = len(read_changes(log))
    done = lab.run(*scenario.command, below=place, record=log, patches=used)
    assert patches or done.code == 0, done.stderr
    return Recording(scenario, starts, place, tuple(read_changes(log)), begin)
