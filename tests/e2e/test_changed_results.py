"""Whatever has decided a result is compared on every path that ends with it.

Two tables: what can change, and the commands that end with a result. Each command is given each
change; a new command belongs into ``COMMANDS``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import jobrun
from tests.support.tables import check_each
from tests.support.thinning import thinned

SPEC = """\
jobrun: 1
name: sum
params: {k: 1, rate: 0.5}
readers: {rows: {npz: rows.npz, fields: {x: x}}}
init: [{task: start, steps: [{load: {w: "start.npy"}}, s = sum(w)]}]
epoch:
  - task: add
    read: rows
    steps: [{call: "step:step", with: {s: s, x: x, rate: "k * rate"}, out: s}]
exit: [{task: write, steps: [{call: "write:write", with: {s: s}}]}]
metrics: {s: s}
stop: [{epochs: 3}]
checkpoint: {every: 1ep}
"""
STEP = "import click\nimport deep\ndef step(s, x, rate):\n    return s + deep.one * x * rate\n"


def _edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def _record(section: str, name: str, value: str) -> Callable[[Path], None]:
    """Make all runs say that they were computed with another version."""

    def change(folder: Path) -> None:
        for path in folder.glob("runs/*/2*/run.json"):
            record = json.loads(path.read_text())
            assert name in record[section]
            record[section][name] = value
            path.write_text(json.dumps(record))

    return change


def _save(name: str, **arrays: np.ndarray) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        if name.endswith(".npz"):
            np.savez(folder / name, **arrays)
        else:
            np.save(folder / name, *arrays.values())

    return change


@dataclass(frozen=True)
class Change:
    """A change that makes a recorded result another one than that of what is there now."""

    name: str
    make: Callable[[Path], None]
    field: str
    # Of the spec: a job that differs is refused also where nothing remains to run.
    in_spec: bool = False
    is_version: bool = False


CHANGES = (
    Change("called function", _edit("step.py", "* x", "* x * 2"), "callables.step:step"),
    Change("imported module", _edit("deep.py", "1", "3"), "callables.deep"),
    Change("function of exit", _edit("write.py", "pass", "return None"), "callables.write:write"),
    Change("data of a reader", _save("rows.npz", x=np.arange(3.0) + 1), "data.rows.npz"),
    Change("data of init", _save("start.npy", w=np.ones(5)), "data.start.npy"),
    Change("data that is gone", lambda folder: (folder / "start.npy").unlink(), "data.start.npy"),
    Change("step of the spec", _edit("sum.yaml", "s = sum(w)", "s = 2 * sum(w)"), "init[0]", True),
    Change("default of a param", _edit("sum.yaml", "rate: 0.5", "rate: 0.25"), "params.rate", True),
    Change(
        "version of numpy", _record("environment", "numpy", "1.0"), "numerics.numpy",
        is_version=True,
    ),
    Change(
        "version of a package", _record("packages", "click", "1.0"), "packages.click",
        is_version=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command that ends with a result.

    Attributes:
        words: Its command line.
        takes_spec: It is given the present spec, and not only what was recorded.
        code: Its exit code where code, data or versions have changed.
        strict: The same with ``--strict``; None where it has no such option.
        spec_code: The same as ``code``, where the spec has changed.
    """

    words: str
    takes_spec: bool = True
    code: int = 0
    strict: int | None = 5
    spec_code: int = 5


COMMANDS = (
    Command("run sum.yaml --resume auto"),
    Command("run sum.yaml --resume must"),
    Command("resume sum", takes_spec=False),
    Command("resume sum --spec sum.yaml"),
    Command("resume sum --dry-run", takes_spec=False),
    Command("resume sum --dry-run --spec sum.yaml"),
    Command("resume sum --dry-run --json --spec sum.yaml"),
    Command("diff sum --working sum.yaml", strict=None, spec_code=0),
    Command("diff sum --working sum.yaml --json", strict=None, spec_code=0),
    Command("report sum --json", takes_spec=False, strict=None),
    Command("report sum --out -", takes_spec=False, strict=None),
    Command("sweep sum.yaml --name many --status", strict=None, spec_code=0),
    Command("sweep sum.yaml --name many --status --csv", strict=None, spec_code=0),
    Command("sweep sum.yaml --name many --status --json", strict=None, spec_code=0),
    Command("sweep sum.yaml --name many --best max:s"),
    Command("sweep sum.yaml --name many --json"),
)
# They begin with a state and compute on, so that what only init reads decides nothing.
FORKS = (Command("fork RUN@1", takes_spec=False), Command("fork RUN@1 sum.yaml", spec_code=0))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder with a finished run, and a finished sweep."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "sum.yaml").write_text(SPEC)
    (folder / "step.py").write_text(STEP)
    (folder / "deep.py").write_text("one = 1\n")
    (folder / "write.py").write_text("def write(s):\n    pass\n")
    np.savez(folder / "rows.npz", x=np.arange(3.0))
    np.save(folder / "start.npy", np.zeros(5))
    assert jobrun("run", "sum.yaml", cwd=folder).returncode == 0
    words = ("--name", "many", "--grid", "k=1,2")
    assert jobrun("sweep", "sum.yaml", *words, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "jobs", symlinks=True)


def _first_run(folder: Path) -> str:
    return str(min(folder.glob("runs/sum/2*"), key=_order).relative_to(folder))


def _order(run: Path) -> int:
    return json.loads((run / "run.json").read_text())["order"]


def _run(folder: Path, words: str, code: int) -> str:
    words = words.replace("RUN", _first_run(folder)) if "RUN" in words else words
    done = jobrun(*words.split(), cwd=folder)
    output = done.stdout + done.stderr
    assert done.returncode == code, f"{words}: {done.returncode}, {output}"
    return re.sub(r"\s+", " ", output)


@pytest.mark.parametrize(
    "command", thinned([*COMMANDS, *FORKS], 6), ids=lambda command: command.words
)
def test_without_a_change_nothing_is_reported(folder, command):
    for words in (command.words, f"{command.words} --strict")[: 1 if command.strict is None else 2]:
        output = _run(folder, words, 0)

        assert not any(change.field in output for change in CHANGES)
        assert "outdated:" not in output
        assert "finished, outdated" not in output
        assert "changed (" not in output


@pytest.mark.parametrize("change", thinned(CHANGES, 10), ids=lambda change: change.name)
def test_each_path_that_ends_with_a_result_says_what_has_changed(folder, change):
    change.make(folder)

    def check(command: Command) -> None:
        if change.in_spec and not command.takes_spec:
            # The recorded spec is what it continues with.
            assert change.field not in _run(folder, command.words, 0)
            return
        code = command.spec_code if change.in_spec else command.code
        assert change.field in _run(folder, command.words, code)
        if command.strict is not None:
            assert change.field in _run(folder, f"{command.words} --strict", command.strict)

    check_each(COMMANDS, check)


@pytest.mark.parametrize("change", thinned(CHANGES, 10), ids=lambda change: change.name)
def test_a_fork_says_what_is_not_as_in_its_parent(folder, change):
    change.make(folder)
    if change.name == "data that is gone":
        return

    def check(command: Command) -> None:
        is_read = change.name != "data of init" and (command.takes_spec or not change.in_spec)
        output = _run(folder, command.words, 0)
        assert (change.field in output) == is_read
        strict = 0 if change.in_spec or not is_read else 5
        assert (change.field in _run(folder, f"{command.words} --strict", strict)) == is_read

    check_each(FORKS, check)


@pytest.mark.parametrize("change", thinned(CHANGES, 10), ids=lambda change: change.name)
def test_tables_and_comparisons_of_runs_say_which_are_of_other_code_data_or_versions(
    folder, change
):
    if change.name == "data that is gone":
        return
    (first,) = folder.glob("runs/sum/2*")
    change.make(folder)
    _run(folder, "run sum.yaml --resume never", 0)
    (second,) = [path for path in folder.glob("runs/sum/2*") if path != first]
    kind = {"callables": "code", "data": "data", "numerics": "versions", "packages": "versions"}
    column = kind.get(change.field.partition(".")[0])

    for words in ("runs sum", "runs sum --best s"):
        head = _run(folder, words, 0).partition(first.name.split("-", 2)[-1])[0]
        assert [name for name in ("code", "data", "versions") if f" {name} " in head] == (
            [column] if column else []
        )
    rows = json.loads(_run(folder, "runs sum --json", 0))["runs"]
    differing = [name for name in ("code", "data", "versions") if len({r[name] for r in rows}) > 1]
    assert differing == ([column] if column else [])
    assert change.field in _run(folder, f"diff {first} {second}", 0)
    page = _run(folder, f"report {first} {second} --out -", 0)
    against = page.partition("Against the first run</h2>")[2]
    name = change.field.removeprefix("numerics.").removeprefix("packages.")
    assert (name if change.is_version else change.field) in (page if change.is_version else against)


@pytest.mark.long
def test_a_test_and_a_new_run_compute_with_what_is_there_now(folder):
    before = json.loads(_run(folder, "test sum.yaml --json", 0).partition(" sum.yaml")[0])
    CHANGES[0].make(folder)
    after = json.loads(_run(folder, "test sum.yaml --json", 0).partition(" sum.yaml")[0])

    first, second = (output["specs"][0]["metrics"]["s"] for output in (before, after))
    assert second == 2 * first


def test_a_sweep_with_a_further_point_marks_the_points_of_the_old_code(folder):
    CHANGES[0].make(folder)

    output = _run(folder, "sweep sum.yaml --name many --grid k=1,2,3 --best s", 0)

    assert output.count("finished, outdated") == 2
    assert "outdated, changed since they finished: k=1; k=2: callables.step:step" in output
    assert re.search(r"best \(least s\): k=1 .* \(outdated\)", output)


@pytest.mark.long
def test_changes_accepted_at_a_resume_are_reported_with_the_result(folder):
    shutil.rmtree(folder / "runs")
    _run(folder, "run sum.yaml --max-epochs 1", 75)
    CHANGES[0].make(folder)
    _run(folder, "resume --accept-drift callables", 0)
    _run(folder, "run sum.yaml --resume never", 0)

    assert " code " in _run(folder, "runs sum", 0)
    names = sorted(path.name for path in folder.glob("runs/sum/2*"))
    pages = [json.loads(_run(folder, f"report sum/{name} --json", 0)) for name in names]
    outdated = [page["runs"][0]["outdated"] for page in pages]
    assert sorted(outdated) == [[], ["callables: changed within the run, and accepted"]]


def test_init_data_changed_while_a_run_is_stopped_are_reported_with_the_result(folder):
    shutil.rmtree(folder / "runs")
    _run(folder, "run sum.yaml --max-epochs 1", 75)
    _save("start.npy", w=np.ones(5))(folder)
    # Its state is saved: further epochs are those of an unbroken run.
    _run(folder, "resume --strict", 0)

    assert "data.start.npy" in _run(folder, "run sum.yaml --resume auto", 0)
