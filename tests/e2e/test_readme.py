"""What the README says is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from jobrun.cli.app import COMMANDS, group
from jobrun.cli.shell import Shell
from jobrun.core.errors import JobrunError
from jobrun.version import __version__
from tests.support.command import ROOT, environment, jobrun
from tests.support.stored import only_run

TEXT = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    """What stands between the fences of that language, in order."""
    fenced = TEXT.split("\n```")[1::2]
    return [
        text.partition("\n")[2] + "\n" for text in fenced if text.partition("\n")[0] == language
    ]


def test_the_table_of_commands_is_that_of_the_help():
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", TEXT, re.MULTILINE)
    assert rows == [(name, line) for name, (_, line) in COMMANDS.items()]
    helped = jobrun("--help").stdout
    for name, line in rows:
        assert re.search(rf"^  {name} +{re.escape(line)}$", helped, re.MULTILINE), name


def test_the_table_of_exit_codes_is_complete():
    rows = {int(code) for code in re.findall(r"^\| (\d+) \| ", TEXT, re.MULTILINE)}
    kinds = {0, JobrunError.exit_code} | {kind.exit_code for kind in JobrunError.__subclasses__()}
    assert rows == kinds


def test_each_command_line_names_a_command_that_exists():
    words = re.findall(r"(?:^|`)jobrun ([a-z][a-z-]*)", TEXT, re.MULTILINE)
    assert len(words) >= 5
    assert sorted(set(words) - set(COMMANDS)) == []


def test_make_has_the_targets():
    targets = re.findall(r"^make ([a-z-]+)", "\n".join(_blocks("bash")), re.MULTILINE)
    assert targets == ["run", "test"]
    for target in targets:
        subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )


def test_the_version_of_the_changes_is_this_one():
    last = TEXT.split("\n## ")[-1]
    assert last.startswith("Changes\n")
    assert f"**{__version__}**" in last


def test_files_that_are_named_exist():
    named = set(re.findall(r"`((?:specs|schemas)/[\w./-]+)`", TEXT))
    assert len(named) >= 3
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the README's spec in it."""
    path = tmp_path_factory.mktemp("readme")
    (path / "walk.yaml").write_text(_blocks("yaml")[0])
    return path


def test_the_first_job_runs_is_stopped_and_goes_on_as_shown(folder):
    lines = [line.partition("#")[0].split() for line in _blocks("bash")[1].splitlines()]
    validate, run, resume, inspect = (words[1:] for words in lines)
    assert "exact" in jobrun(*validate, cwd=folder).stdout
    assert jobrun(*run, "--max-epochs", "3", cwd=folder).returncode == 75
    done = jobrun(*resume, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "a particle is 8." in done.stderr
    found = only_run(folder / "runs")
    assert json.loads((found / "run.json").read_text())["status"] == "finished"
    assert (found / "artifacts" / "particles.npy").is_file()
    assert "200 x 3" in jobrun(*inspect, cwd=folder).stdout


def test_the_tree_of_a_run_is_as_shown(folder):
    found = only_run(folder / "runs")
    (block,) = _blocks("")
    names = {
        word.strip("/").partition("/")[0]
        for line in block.splitlines()[1:]
        for word in re.split(r" {3,}", line.strip())[0].split()
    }
    missing = [name for name in names if not (found / name).exists()]
    assert missing == []


@pytest.mark.long
def test_the_lines_of_python_do_what_they_say(folder):
    done = subprocess.run(
        [sys.executable, "-c", _blocks("python")[0]],
        cwd=folder, env=environment(), check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(done.stdout) > 2


def _shown() -> list[list[str]]:
    """The words of every command line of jobrun that the text shows in a block."""
    lines = "\n".join(_blocks("bash")).splitlines()
    words = [line.partition("#")[0].split() for line in lines]
    return [line[1:] for line in words if line[:1] == ["jobrun"]]


def test_every_command_line_that_is_shown_is_one():
    assert len(_shown()) > 10
    for words in _shown():
        context = group.make_context("jobrun", list(words), obj=Shell({}), resilient_parsing=True)
        command = group.get_command(context, words[0])
        assert command is not None, words
        parts = getattr(command, "commands", {})
        known = {
            name
            for one in (command, *parts.values())
            for param in one.params
            for name in (*param.opts, *param.secondary_opts)
        }
        assert [word for word in words if word.startswith("-") and word not in known] == []


@pytest.mark.long
def test_an_hour_with_an_own_file_and_function_goes_as_shown(tmp_path):
    spec = next(text for text in _blocks("yaml") if "name: sales" in text)
    module = next(text for text in _blocks("python") if "def fit" in text)
    (tmp_path / "sales.yaml").write_text(spec)
    (tmp_path / "mine.py").write_text(module)
    rows = [f"{price / 10},{40 - 3 * price / 10}" for price in range(10, 90)]
    (tmp_path / "sales.csv").write_text("\n".join(["price,sold", *rows]) + "\n")
    shown = next(text for text in _blocks("bash") if "jobrun run sales.yaml" in text)
    lines = [line.partition("#")[0].split()[1:] for line in shown.splitlines()]
    run, again, changed, fork, runs, diff, report = lines

    assert jobrun(*run, cwd=tmp_path).returncode == 75
    assert jobrun(*again, cwd=tmp_path).returncode == 0
    assert jobrun(*changed, cwd=tmp_path).returncode == 5
    first = only_run(tmp_path / "runs").name
    forked = jobrun(*fork, cwd=tmp_path)
    assert forked.returncode == 0, forked.stderr
    listed = jobrun(*runs, cwd=tmp_path).stdout
    (second,) = set(re.findall(r"sales/(\S+)", listed)) - {first}
    names = {"FIRST": first.split("-", 2)[2], "SECOND": second.split("-", 2)[2]}
    differ = jobrun(*(names.get(word, word) for word in diff), cwd=tmp_path)
    assert "params.rate: 0.02 | 0.03" in differ.stdout, differ.stderr
    done = jobrun(*(names.get(word, word) for word in report), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "params.rate" in (tmp_path / "sales.html").read_text()
