"""The entry point, and what it costs to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.__main__ import main
from jobrun.version import __version__
from tests.support.command import JOBRUN, ROOT, environment, jobrun
from tests.support.thinning import thinned

SHOW_MODULES = "import sys; from jobrun.__main__ import main; code = main(sys.argv[1:]); "
SHOW_MODULES += "print('MODULES', *sorted(sys.modules), file=sys.stderr); sys.exit(code)"

# No command needs these, or what is below them, where it says nothing of it here.
HEAVY = {
    "numpy", "h5py", "rich", "ray", "torch", "pydantic", "yaml", "obstore", "asyncio", "email",
    "http", "importlib.metadata", "tarfile", "urllib.request", "xml", "jobrun.api",
    "jobrun.compile", "jobrun.session", "jobrun.runtime", "jobrun.tools.sweep",
}  # fmt: skip
COMPILER = {"pydantic", "yaml", "jobrun.api", "jobrun.compile"}
# What a run of a job without readers, queues, callables, uploads and other nodes leaves out.
UNUSED = {
    "jobrun.checkpoint.stores.bucket", "jobrun.checkpoint.stores.object_store",
    "jobrun.compile.python_jobs", "jobrun.runner.resume.resize", "jobrun.runner.fork",
    "jobrun.runner.fork_first_state", "jobrun.runner.check_resume",
    "jobrun.runner.saving.upload_to_object_store", "jobrun.runtime.records.task_reader",
    "jobrun.runtime.callables.call", "jobrun.runtime.steps.run_program",
    "jobrun.session.node_files", "jobrun.session.processes", "jobrun.session.ray",
    "jobrun.session.wire",
    "jobrun.spec.models.control_flow",
    "jobrun.spec.models.optional_parts", "jobrun.spec.models.readers",
    "jobrun.spec.models.retention", "jobrun.spec.models.steps",
    "jobrun.spec.models.validation_errors",
}  # fmt: skip
# What the standard library imports since Python 3.14, in modules that are imported anyway.
NEWER = {
    "_colorize", "_opcode_metadata", "_py_warnings", "_tokenize", "_types", "_zstd",
    "annotationlib", "compression", "ctypes._layout", "pathlib._os",
}  # fmt: skip
# Of a job with nothing but statements, for which each import is one too many.
TRIVIAL = """\
jobrun: 1
name: trivial
params: {rate: 1.5}
init: [{task: start, steps: [x = 0.0]}]
epoch: [{task: step, steps: [x += rate]}]
metrics: {x: x}
stop: [{epochs: 3}]
"""
RUN = ["run", "trivial.yaml", "-q", "--resume", "never"]
# Words, heavy things that are needed, and most modules of all (beyond those that the interpreter
# of this environment starts with, each library counted once) and of our own. They only go down: a
# module takes as long to import as a small function that is called a thousand times.
COMMANDS = {
    "--version": (["--version"], set(), 4, 3),
    "--help": (["--help"], set(), 91, 17),
    "explain": (["explain", "E400"], {"jobrun.compile"}, 125, 52),
    "validate": (["validate", "trivial.yaml"], COMPILER, 241, 139),
    "plan": (["plan", "trivial.yaml"], COMPILER, 253, 147),
    "graph": (["graph", "trivial.yaml"], COMPILER, 247, 145),
    "run": (RUN, {*COMPILER, "numpy", "jobrun.session", "jobrun.runtime"}, 458, 320),
    "status": (["status"], set(), 127, 51),
    "logs": (["logs"], set(), 115, 40),
    "metrics": (["metrics"], set(), 126, 45),
    "runs": (["runs"], set(), 121, 46),
}
DAILY = {"validate", "run", "status"}


def _modules(folder: Path, *arguments: str, **variables: str) -> set[str]:
    """The modules that a command has imported when it ends; of a library its packages alone.

    How many modules a library is made of changes from release to release.
    """
    imported = _imported_by(SHOW_MODULES, folder, *arguments, **variables) - _imported_by(
        "import sys; print('MODULES', *sys.modules, file=sys.stderr)", folder
    )
    return set(map(_counted_name, imported - _below(NEWER, imported)))


def _counted_name(module: str) -> str:
    package = module.partition(".")[0]
    return module if package == "jobrun" or package in sys.stdlib_module_names else package


def _imported_by(program: str, folder: Path, *arguments: str, **variables: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder,
        env=environment(JOBRUN_UNGUARDED="1", PYTHONPATH=str(ROOT), **variables),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("MODULES"))
    return set(line.split()[1:])


def _below(names: set[str], imported: set[str]) -> set[str]:
    return {
        module for module in imported if any(f"{module}.".startswith(f"{name}.") for name in names)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a spec, and a run of it."""
    path = tmp_path_factory.mktemp("imports")
    (path / "trivial.yaml").write_text(TRIVIAL)
    assert jobrun(*RUN, cwd=path).returncode == 0
    return path


def _as_few(
    words: list[str], needed: set[str], most: int, most_ours: int, folder: Path, **more: str
):
    imported = _modules(folder, *words, **more)
    assert sorted(_below((HEAVY | UNUSED) - needed, imported)) == []
    assert len(imported) <= most
    assert len(_below({"jobrun"}, imported)) <= most_ours


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in {"validate", "run", "status"}
        else pytest.param(name, marks=pytest.mark.long)
        for name in COMMANDS
    ],
)
def test_a_command_imports_what_it_needs(name, folder):
    _as_few(*COMMANDS[name], folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "needed", "most", "most_ours"),
    [
        ("jobrun sta", set(), 84, 18),
        ("jobrun run trivial.yaml --res", set(), 100, 33),
        ("jobrun run trivial.yaml --set par", {"yaml"}, 121, 45),
        ("jobrun status ", set(), 129, 53),
    ],
)
def test_a_completion_imports_what_it_needs(line, needed, most, most_ours, folder):
    count = str(len(line.split()) - (not line.endswith(" ")))
    variables = {"_JOBRUN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": count}
    _as_few([], needed, most, most_ours, folder, **variables)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(option):
    done = jobrun(option, started=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"jobrun {__version__}\n", "")


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(["run", "resume", "validate", "plan", "graph"], 5))
def test_help_of_a_command_imports_no_numerics(name, folder):
    assert _below({"numpy", "h5py", "rich"}, _modules(folder, name, "--help")) == set()


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


# Its file has text in a buffer when the process ends.
LEAVES_A_FILE_OPEN = """\
file = open("left.txt", "w")


def step(x):
    file.write("kept\\n")
    return x + 1
"""
CALLS_IT = """\
jobrun: 1
name: left
init: [{task: start, steps: [x = 0.0]}]
epoch: [{task: step, steps: [{call: "leaves:step", with: {x: x}, out: x}]}]
stop: [{epochs: 2}]
"""


def test_a_file_that_a_callable_left_open_is_written_at_the_end(tmp_path):
    (tmp_path / "leaves.py").write_text(LEAVES_A_FILE_OPEN)
    (tmp_path / "left.yaml").write_text(CALLS_IT)
    done = jobrun("run", "left.yaml", "-q", cwd=tmp_path, started=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "left.txt").read_text() == "kept\n" * 2


def test_a_command_ends_without_taking_down_its_modules(folder):
    done = subprocess.run(
        [sys.executable, "-v", "-m", "jobrun", "validate", "trivial.yaml"],
        cwd=folder, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "# cleanup" not in done.stderr


def test_a_profiler_that_runs_a_command_still_prints_what_it_found(folder):
    done = subprocess.run(
        [sys.executable, "-m", "cProfile", "-m", "jobrun", "validate", "trivial.yaml"],
        cwd=folder, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "function calls" in done.stdout


@pytest.mark.parametrize("register", ["atexit.register(print, 'at the end')", ""])
def test_what_the_environment_has_registered_for_the_end_is_called(register, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(f"import atexit\n{register}\n")
    done = jobrun(
        "explain", "E400", started=True,
        env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
    )  # fmt: skip
    assert done.stdout.endswith("at the end\n") == bool(register)
