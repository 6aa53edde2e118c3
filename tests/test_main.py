"""The entry point, and what it costs to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.__main__ import main
from jobrun.version import __version__
from tests.support.command import JOBRUN, SPECS, environment, jobrun
from tests.support.pace import thinned

HEAVY = {"numpy", "h5py", "rich"}
SHOW_MODULES = "import sys; from jobrun.__main__ import main; code = main(sys.argv[1:]); "
SHOW_MODULES += "print('MODULES', *sorted(sys.modules), file=sys.stderr); sys.exit(code)"


def _modules(*arguments: str | Path) -> set[str]:
    """The top-level packages that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES, *map(str, arguments)],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("MODULES"))
    return {name.partition(".")[0] for name in line.split()[1:]}


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told_without_importing_anything(option):
    done = jobrun(option, started=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"jobrun {__version__}\n", "")
    assert not _modules(option) & {*HEAVY, "click", "pydantic", "yaml"}


@pytest.mark.parametrize("arguments", thinned([["--help"], ["explain"], ["explain", "E400"]], 2))
def test_help_and_explanations_import_click_only(arguments):
    assert not _modules(*arguments) & {*HEAVY, "pydantic", "yaml"}


@pytest.mark.parametrize("name", thinned(["run", "resume", "validate", "plan", "graph"], 5))
def test_help_of_a_command_imports_nothing_heavy(name):
    assert not _modules(name, "--help") & HEAVY


@pytest.mark.parametrize("command", thinned(["plan", "validate", "graph"], 3))
def test_checking_a_spec_imports_neither_numpy_nor_h5py_nor_rich(command):
    assert not _modules(command, SPECS / "digits-kmeans.yaml") & HEAVY


def test_a_run_without_a_terminal_does_not_import_rich(tmp_path):
    assert "rich" not in _modules("run", SPECS / "two-nodes.yaml", "--run-dir", tmp_path)


def test_main_returns_the_exit_code(capsys):
    assert main(["explain", "E400"]) == 0
    assert main(["nonsense"]) == 2
    capsys.readouterr()


def test_closed_standard_streams_are_opened_so_that_no_file_gets_their_number():
    program = (
        "import os; os.close(1); os.close(0); from jobrun.__main__ import main; "
        "main(['--version']); number = os.open('/dev/zero', os.O_RDONLY); assert number > 2, number"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_program_is_the_module():
    program = Path(sys.executable).with_name("jobrun")
    for command in ([str(program)], list(JOBRUN)):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("Usage: jobrun ")
    assert os.access(program, os.X_OK)
