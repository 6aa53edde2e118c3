"""What the README says is so."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from jobrun.cli.app import COMMAND_GROUPS, COMMANDS
from jobrun.core.errors import JobrunError
from jobrun.version import __version__
from tests.support.command import ROOT, jobrun
from tests.support.manual_blocks import PAGES, iter_blocks, names_of_tree
from tests.support.stored_runs import only_run

TEXT = (ROOT / "README.md").read_text()
MANUAL = ROOT / "jobrun" / "manual"


def _blocks(language: str) -> list[str]:
    """What stands between the fences of that language, in order."""
    return [block.text for block in iter_blocks(TEXT) if block.language == language]


def test_the_table_of_commands_is_that_of_the_help():
    rows = re.findall(r"^\| (?:`([a-z-]+)`|\*\*(\w+)\*\*) \|(.*)\|$", TEXT, re.MULTILINE)
    wanted: list[tuple[str, str, str]] = []
    for heading, commands in COMMAND_GROUPS.items():
        wanted += [("", heading, ""), *((name, "", line) for name, (_, line) in commands.items())]
    assert [(name, heading, line.strip()) for name, heading, line in rows] == wanted
    helped = jobrun("--help").stdout
    for name, heading, line in wanted:
        row = rf"  {name} +{re.escape(line)}" if name else f"{heading}:"
        assert re.search(rf"^{row}$", helped, re.MULTILINE), name or heading


def test_the_table_of_exit_codes_is_complete():
    text = (MANUAL / "exit-codes.md").read_text()
    rows = {int(code) for code in re.findall(r"^\| (\d+) \| ", text, re.MULTILINE)}
    kinds = {0, JobrunError.exit_code} | {kind.exit_code for kind in JobrunError.__subclasses__()}
    assert rows == kinds


def test_each_command_line_names_a_command_that_exists():
    words = re.findall(r"(?:^|`)jobrun ([a-z][a-z-]*)", TEXT, re.MULTILINE)
    assert len(words) >= 5
    assert sorted(set(words) - {*COMMANDS, "help"}) == []


def test_make_has_the_targets():
    targets = re.findall(r"^make ([a-z-]+)", "\n".join(_blocks("bash")), re.MULTILINE)
    assert targets == ["run", "test"]
    for target in targets:
        subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )


def test_it_is_one_page():
    assert len(TEXT.splitlines()) <= 200


def test_the_version_of_the_changes_is_this_one():
    changes = (ROOT / ".github" / "CHANGELOG.md").read_text()
    assert changes.split("\n## ")[1].startswith(__version__)
    cited = (ROOT / ".github" / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in cited


def test_files_that_are_named_exist():
    named = set(re.findall(r"`((?:specs|schemas)/[\w./-]+)`", TEXT))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the README's spec in it."""
    path = tmp_path_factory.mktemp("readme")
    (path / "walk.yaml").write_text(_blocks("yaml")[0])
    return path


def test_the_first_job_runs_is_stopped_and_continues_as_shown(folder):
    lines = [line.partition("#")[0].split() for line in _blocks("bash")[1].splitlines()]
    validate, run, resume, inspect = (words[1:] for words in lines)
    assert "exact" in jobrun(*validate, cwd=folder).stdout
    assert jobrun(*run, "--max-epochs", "3", cwd=folder).returncode == 75
    done = jobrun(*resume, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "a particle is 8." in done.stderr
    run_dir = only_run(folder / "runs")
    assert json.loads((run_dir / "run.json").read_text())["status"] == "finished"
    assert (run_dir / "artifacts" / "particles.npy").is_file()
    assert "200 x 3" in jobrun(*inspect, cwd=folder).stdout


def test_the_tree_of_a_run_is_as_shown(folder):
    run_dir = only_run(folder / "runs")
    (block,) = (block for block in iter_blocks(PAGES["saving"]) if "tree" in block.words)
    assert [name for name in names_of_tree(block.text) if not [*run_dir.glob(name)]] == []
