"""The order of a set of text is the same in every process that computes for a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from jobrun.core.hash_seed import described_hash_seed, hash_seed, recorded_seed
from jobrun.runner.rundir.run_directories import open_run
from tests.support.command import environment
from tests.support.stored_runs import only_run
from tests.support.thinning import thinned

SPEC = """\
jobrun: 1
name: order
init: [{task: start, steps: ["x = 0"]}]
epoch: [{task: step, steps: [{call: "mine:step", with: {x: x}, out: x}]}]
exit: [{task: end, steps: [{save: {x: "${run.dir}/artifacts/x.npy"}}]}]
stop: [{epochs: 4}]
"""
MINE = """\
def step(x):
    words = {f"word {number}" for number in range(40)}
    for place, word in enumerate(words):
        x += place * int(word[5:])
    return x % 1000003
"""
PROGRAM = """\
import sys, jobrun
from jobrun.core.errors import DriftError
options = jobrun.RunOptions(max_epochs=int(sys.argv[2]), strict=sys.argv[3:] == ["strict"])
def tell(event):
    print(event)
try:
    jobrun.run("order.yaml", options, resume=sys.argv[1], listener=tell)
except DriftError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "order.yaml").write_text(SPEC)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def _started(folder, *words, seed=None, **variables):
    environ = {**environment(), **variables}
    environ.pop("JOBRUN_UNGUARDED", None)
    environ.pop("PYTHONHASHSEED", None)
    if seed is not None:
        environ["PYTHONHASHSEED"] = seed
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def _jobrun(folder, *words, seed=None, **variables):
    return _started(folder, "-m", "jobrun", *words, seed=seed, **variables)


def _artifact(folder):
    return (only_run(folder / "runs") / "artifacts" / "x.npy").read_bytes()


def _recorded(folder):
    return open_run(only_run(folder / "runs")).record.environment["hash_seed"]


@pytest.mark.long
@pytest.mark.parametrize("session", thinned(["threads", "processes"], 2))
def test_iteration_over_a_set_of_text_is_equal_unbroken_and_resumed(folder, tmp_path, session):
    again = tmp_path / "again"
    again.mkdir()
    for name in ("order.yaml", "mine.py"):
        (again / name).write_text((folder / name).read_text())
    assert _jobrun(folder, "run", "order.yaml", "--session", session).returncode == 0
    words = ["run", "order.yaml", "--max-epochs", "2", "--session", session]
    assert _jobrun(again, *words).returncode == 75
    assert _jobrun(again, "resume", "--strict", "--session", session).returncode == 0
    assert _artifact(folder) == _artifact(again)
    assert _recorded(folder) == _recorded(again)
    assert _recorded(folder).startswith("0 (")


@pytest.mark.long
def test_a_seed_of_the_environment_is_kept_and_a_resume_uses_the_recorded_one(folder):
    assert _jobrun(folder, "run", "order.yaml", "--max-epochs", "1", seed="5").returncode == 75
    assert _recorded(folder).startswith("5 (")
    before = _recorded(folder)

    done = _jobrun(folder, "resume", "--strict", "--max-epochs", "1", seed="7")
    assert done.returncode == 75, done.stderr
    assert "hash_seed" not in done.stdout + done.stderr
    assert _recorded(folder) == before
    done = _jobrun(folder, "fork", "order@2", "--max-epochs", "1")
    assert done.returncode == 75
    newest = max((folder / "runs" / "order").glob("2*"), key=lambda path: path.stat().st_mtime)
    assert open_run(newest).record.environment["hash_seed"] == before


@pytest.mark.long
def test_the_seed_is_fixed_without_a_supervisor_too(folder):
    # No room for the memory that a supervisor shares with the process that computes.
    line = 'ulimit -f 15; exec "$0" -m jobrun run order.yaml --max-epochs 1'
    environ = {**environment(), "PYTHONHASHSEED": "random"}
    subprocess.run(["bash", "-c", line, sys.executable], cwd=folder, env=environ, check=False)

    assert recorded_seed(_recorded(folder)) == "0"


@pytest.mark.long
def test_an_interpreter_that_ignores_its_variables_is_not_started_again_without_end(folder):
    assert _jobrun(folder, "run", "order.yaml", "--max-epochs", "1").returncode == 75

    refused = _started(folder, "-E", "-m", "jobrun", "resume", "--strict")
    assert refused.returncode == 5, refused.stderr
    assert "numerics.hash_seed" in refused.stderr
    done = _started(folder, "-E", "-m", "jobrun", "resume", "--max-epochs", "1")
    assert done.returncode == 75, done.stderr


@pytest.mark.long
def test_a_program_around_the_command_line_is_not_started_again(folder):
    assert _jobrun(folder, "run", "order.yaml", "--max-epochs", "1").returncode == 75
    (folder / "go.py").write_text(
        "import sys\nfrom jobrun.__main__ import main\nprint('begun')\n"
        "sys.argv = ['jobrun', 'resume', '--strict']\nsys.exit(main())\n"
    )

    done = _started(folder, "go.py")
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("begun") == 1
    assert "numerics.hash_seed" in done.stderr


@pytest.mark.long
def test_a_program_that_calls_jobrun_is_warned_and_refused_when_strict(folder):
    (folder / "go.py").write_text(PROGRAM)
    done = _started(folder, "go.py", "never", "1")
    assert "PYTHONHASHSEED=0 before Python starts" in done.stdout

    # Setting it when Python has started has no effect, and does not count.
    (folder / "go.py").write_text(f"import os\nos.environ['PYTHONHASHSEED'] = '0'\n{PROGRAM}")
    done = _started(folder, "go.py", "auto", "1", "strict")
    assert done.returncode == 5, done.stdout
    assert "numerics.hash_seed" in done.stdout
    assert "was random" in done.stdout

    done = _started(folder, "go.py", "never", "1", seed="0")
    assert "PYTHONHASHSEED" not in done.stdout
    assert _started(folder, "go.py", "auto", "1", "strict", seed="0").returncode == 0


@pytest.mark.long
def test_programs_that_steps_start_have_the_seed_too(folder):
    (folder / "order.yaml").write_text(
        SPEC.replace(
            '{call: "mine:step", with: {x: x}, out: x}',
            "{run: [python3, -c, \"import os; print(os.environ['PYTHONHASHSEED'])\"]}",
        )
    )
    assert _jobrun(folder, "run", "order.yaml", seed="6").returncode == 0
    assert "6" in _jobrun(folder, "logs", "order").stdout.split()


def test_the_seed_is_that_of_the_start_of_the_process():
    text = "import os; os.environ['PYTHONHASHSEED'] = '3'; from jobrun.core.hash_seed import *; "
    text += "import json; print(json.dumps([hash_seed(), described_hash_seed()]))"
    environ = {**os.environ, "PYTHONHASHSEED": "4"}
    out = subprocess.run(
        [sys.executable, "-c", text], env=environ, capture_output=True, text=True, check=True
    )
    seed, described = json.loads(out.stdout)
    assert seed == "4"
    assert described.startswith("4 (")
    assert recorded_seed(described) == "4"
    assert recorded_seed("random (12345678)") == recorded_seed("") == ""
    assert described_hash_seed().startswith(hash_seed())
