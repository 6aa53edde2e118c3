"""No power cut, whatever it leaves on the disk, costs what was saved; and wrong protocols show."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability import mutants
from tests.durability.explorer import Explorer, differences, on_a_disk_of_memory
from tests.durability.mutants import MUTANTS, OF_RECOVERY, reference
from tests.durability.scenarios import SCENARIOS, Recording, record
from tests.support.faults import FaultLab

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
# Of the other scenarios 'make prove' looks at as many states; here at fewer.
WHOLE = ("commit", "recycling", "newest damaged", "back to epoch 2", "within epochs")
NAMES = {mutant.__name__: mutant for mutant in MUTANTS}


class Bench:
    """A lab, an explorer, and recordings that were made."""

    def __init__(self, lab: FaultLab, explorer: Explorer, folder: Path) -> None:
        self.explorer = explorer
        self._lab, self._folder = lab, folder

    def recording(self, name: str, patches: tuple[str, ...] = ()) -> Recording:
        """A scenario, carried out with these patches; anew each time."""
        number = len(list(self._folder.iterdir()))
        return record(BY_NAME[name], self._lab, self._folder / f"{number}", patches)

    def faults_of(self, name: str) -> list[str]:
        """What the explorer finds wrong with a mutant."""
        patches = (reference(NAMES[name]),)
        recording = self.recording(MUTANTS[NAMES[name]], patches)
        result = self.explorer.explore(
            recording,
            "weak",
            samples=3,
            stride=3,
            first_fault_only=True,
            patches=patches if NAMES[name] in OF_RECOVERY else (),
        )
        return result.faults


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[Bench]:
    with on_a_disk_of_memory(tmp_path_factory.mktemp("explorer")) as folder:
        (folder / "recordings").mkdir()
        with FaultLab(folder / "lab") as lab, Explorer(lab, folder) as explorer:
            yield Bench(lab, explorer, folder / "recordings")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_each_wrong_protocol_is_caught(bench, name):
    assert bench.faults_of(name) != []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BY_NAME)
def test_row_81_no_power_cut_loses_what_was_saved(bench, name):
    recording = bench.recording(name)

    assert differences(recording) == []
    samples, stride = (1, 12) if name in WHOLE else (0, 61)
    for model in ("weak", "ordered"):
        result = bench.explorer.explore(
            recording, model, samples=samples, stride=stride, resume_every=97
        )
        assert result.faults == []
        assert result.states > 0
        assert result.resumed > 0 or name not in WHOLE


@pytest.mark.long
def test_epoch_renamed_by_a_killed_process_is_synced_before_its_acknowledgement(bench):
    """The kill came between a rename and the sync of its directory; then the power is cut."""
    recording = bench.recording("killed after a rename")
    promised = next(
        number
        for number, change in enumerate(recording.changes)
        if number >= recording.begin and b'"kind": "epoch"' in change.data
    )
    disk = recording.starts["weak"]
    for change in recording.changes[:promised]:
        disk.apply(change)

    names = {disk.inodes[naming.inode].name for naming in disk.pending}

    assert [name for name in names if name.startswith("epoch-")] == []


def test_the_names_of_all_new_directories_are_synced(bench):
    recording = bench.recording("commit")
    disk = recording.starts["weak"]
    for change in recording.changes:
        disk.apply(change)
        if b'"kind": "epoch"' in change.data:
            break

    names = {disk.inodes[naming.inode].name for naming in disk.pending}

    assert "runs" not in names
    assert "tiny" not in names


@pytest.mark.long
def test_all_changes_of_a_run_are_recorded(bench):
    assert differences(bench.recording("recycling")) == []


def test_functions_replaced_by_mutants_exist():
    """A mutant that sets a name which nothing has shows nothing when it is not caught."""
    tree = ast.parse(inspect.getsource(mutants))
    missing = [
        f"{target.value.id}.{target.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        if (owner := getattr(mutants, target.value.id, None)) is not None
        and not hasattr(owner, target.attr)
    ]
    assert missing == []
