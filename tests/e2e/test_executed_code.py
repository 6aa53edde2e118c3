"""The code that a run executes is the code that it recorded, in each process, at any epoch."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun import runs
from jobrun.runtime.context.imported_code import read_imported
from tests.support.command import environment
from tests.support.stored_runs import epochs, only_run
from tests.support.thinning import thinned

# ``work`` edits a module in epoch 2, as a person would at the wrong time, and uses it in epoch 4.
STEP = """\
import importlib, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).parent

def step(x, epoch):
    if epoch == 2 and (HERE / "edit").exists():
        (HERE / "edit").unlink()
        edit()
    return use(x) if epoch >= 4 else x + 1

def edit():
    path = HERE / "late.py"
    before = path.stat()
    path.write_text(path.read_text().replace("100", "999"))
    # Of the same length and time: a cache of bytecode passes for that of the edited source.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
"""
LATE = "AMOUNT = 100\n\ndef add(x):\n    return x + AMOUNT\n"
USES = {
    "function": "def use(x):\n    import late\n    return late.add(x)\n",
    "from": "def use(x):\n    from late import add\n    return add(x)\n",
    "swallowed": (
        "def use(x):\n    try:\n        import late\n    except Exception:\n        return x\n"
        "    return late.add(x)\n"
    ),
    "computed": "def use(x):\n    return importlib.import_module('la' + 'te').add(x)\n",
    "by-path": (
        "def use(x):\n"
        "    from importlib.util import module_from_spec, spec_from_file_location\n"
        "    spec = spec_from_file_location('any_name', HERE / 'late.py')\n"
        "    module = module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    return module.add(x)\n"
    ),
    "reload": ("import late\ndef use(x):\n    importlib.reload(late)\n    return late.add(x)\n"),
    "package": "def use(x):\n    from pack.inner import add\n    return add(x)\n",
    "namespace": "def use(x):\n    from space.inner import add\n    return add(x)\n",
    "fork": (
        "def run(x):\n    import late\n    return late.add(x)\n"
        "def use(x):\n    with get_context('fork').Pool(1) as pool:\n"
        "        return pool.map(run, [x])[0]\n"
    ),
    "spawn": (
        "def run(x):\n    import late\n    return late.add(x)\n"
        "def use(x):\n    with ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        return pool.submit(run, x).result()\n"
    ),
    "spawn-imported": (
        "import late\n"
        "def use(x):\n    with ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        return pool.submit(late.add, x).result()\n"
    ),
    "forkserver": (
        "def run(x):\n    import late\n    return late.add(x)\n"
        "def use(x):\n    with ProcessPoolExecutor(1, get_context('forkserver')) as pool:\n"
        "        return pool.submit(run, x).result()\n"
    ),
    "loky": (
        "def run(x):\n    import late\n    return late.add(x)\n"
        "def use(x):\n    from joblib import Parallel, delayed\n"
        "    return Parallel(n_jobs=2)([delayed(run)(x)])[0]\n"
    ),
}
SPEC = """\
jobrun: 1
name: late
init: [{task: start, steps: [x = 0]}]
epoch: [{task: work, steps: [{call: "work:step", with: {x: x}, out: x}]}]
stop: [epochs: 6]
checkpoint: {every: 1ep}
"""
EXPECTED = 3 + 3 * 100


def write_job(folder: Path, use: str) -> None:
    (folder / "job.yaml").write_text(SPEC)
    (folder / "work.py").write_text(STEP + USES[use])
    (folder / "late.py").write_text(LATE)
    if use in ("package", "namespace"):
        inner = folder / {"package": "pack", "namespace": "space"}[use]
        inner.mkdir()
        if use == "package":
            (inner / "__init__.py").touch()
        (inner / "inner.py").write_text("from late import add\n")
    # A cache of bytecode, as an earlier run leaves it.
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)


def jobrun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jobrun", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )


def last_value(folder: Path) -> object:
    return runs(folder / "runs")[0].blobs()["x"]


@pytest.mark.parametrize(
    ("use", "session"),
    [
        *thinned(itertools.product(USES, ["threads", "processes"]), 9, 3),
        pytest.param("function", "ray", marks=pytest.mark.long),
        pytest.param("spawn", "ray", marks=pytest.mark.long),
    ],
)
def test_a_module_that_was_edited_before_a_late_import_stops_the_run(tmp_path, use, session):
    write_job(tmp_path, use)
    (tmp_path / "edit").touch()

    stopped = jobrun(tmp_path, "run", "job.yaml", "--session", session)

    assert stopped.returncode == 5, stopped.stderr
    assert "error[E465]" in stopped.stderr
    assert "late.py" in stopped.stderr
    assert max(epochs(only_run(tmp_path / "runs"))) == 3
    refused = jobrun(tmp_path, "resume", "--session", session)
    assert refused.returncode == 5, refused.stderr
    assert "late" in refused.stderr

    (tmp_path / "late.py").write_text(LATE)
    resumed = jobrun(tmp_path, "resume", "--session", session)

    assert resumed.returncode == 0, resumed.stderr
    assert last_value(tmp_path) == EXPECTED


@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_module_that_only_its_import_reveals_is_compared_from_then_on(tmp_path, session):
    write_job(tmp_path, "by-path")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (tmp_path / "late.py").rename(plugins / "late.py")
    work = tmp_path / "work.py"
    work.write_text(work.read_text().replace("HERE / 'late.py'", "HERE / 'plugins' / 'late.py'"))

    assert (
        jobrun(tmp_path, "run", "job.yaml", "--session", session, "--max-epochs", "4").returncode
        == 75
    )
    run = only_run(tmp_path / "runs")
    assert list(read_imported(run)) == ["../../../plugins/late.py"]
    (plugins / "late.py").write_text(LATE.replace("100", "999"))
    refused = jobrun(tmp_path, "resume", "--session", session)
    assert refused.returncode == 5, refused.stderr
    assert "imported.../../../plugins/late.py" in refused.stderr
    accept = ["--accept-drift", "imported.../../../plugins/late.py"]
    accepted = jobrun(tmp_path, "resume", "--session", session, *accept)
    assert accepted.returncode == 0, accepted.stderr
    assert last_value(tmp_path) == 3 + 100 + 2 * 999


def test_an_edit_while_a_run_imports_a_revealed_module_again_stops_it(tmp_path):
    write_job(tmp_path, "by-path")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "late.py").rename(tmp_path / "plugins" / "late.py")
    work = tmp_path / "work.py"
    text = work.read_text().replace("'late.py'", "'plugins' / 'late.py'")
    # From the first epoch on, so that it is known when it is edited.
    text = text.replace('HERE / "late.py"', 'HERE / "plugins" / "late.py"')
    work.write_text(text.replace("return use(x) if epoch >= 4 else x + 1", "return use(x)"))
    (tmp_path / "edit").touch()

    stopped = jobrun(tmp_path, "run", "job.yaml")

    assert stopped.returncode == 5, stopped.stderr
    assert "error[E465]" in stopped.stderr


def test_a_killed_run_is_resumed_with_the_code_that_it_recorded(tmp_path):
    write_job(tmp_path, "function")
    work = tmp_path / "work.py"
    kill = "    if epoch == 5 and (HERE / 'kill').exists():\n        os.kill(os.getpid(), 9)\n"
    work.write_text(
        work.read_text().replace("def step(x, epoch):\n", f"def step(x, epoch):\n{kill}")
    )
    (tmp_path / "kill").touch()

    jobrun(tmp_path, "run", "job.yaml")
    (tmp_path / "kill").unlink()
    (tmp_path / "late.py").write_text(LATE.replace("100", "999"))
    assert jobrun(tmp_path, "resume").returncode == 5
    (tmp_path / "late.py").write_text(LATE)
    assert jobrun(tmp_path, "resume").returncode == 0
    assert last_value(tmp_path) == EXPECTED


def test_bytecode_of_other_source_is_not_executed(tmp_path):
    write_job(tmp_path, "function")
    late = tmp_path / "late.py"
    before = late.stat()
    late.write_text(LATE.replace("100", "200"))
    os.utime(late, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert jobrun(tmp_path, "run", "job.yaml").returncode == 0
    assert last_value(tmp_path) == 3 + 3 * 200


def test_modules_that_python_imported_before_the_run_are_imported_again_if_edited(tmp_path):
    write_job(tmp_path, "from")
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "import late, work\n"
        "from pathlib import Path\n"
        "path = Path('late.py')\n"
        "path.write_text(path.read_text().replace('x + AMOUNT', 'x + 2 * AMOUNT'))\n"
        "import jobrun\n"
        "jobrun.run('job.yaml')\n"
        "print(jobrun.runs('runs')[0].blobs()['x'])\n"
        "path.write_text(path.read_text().replace('100', '300'))\n"
        "jobrun.run('job.yaml')\n"
        "print(jobrun.runs('runs')[1].blobs()['x'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stdout.split()[-2:] == [str(3 + 3 * 200), str(3 + 3 * 600)], done.stderr
    lines = [line for line in done.stderr.splitlines() if "E465" in line]
    assert lines == []


@pytest.mark.parametrize("line", ["[bash, add.sh]", "\"echo > seen; bash 'add.sh'\""])
def test_a_script_that_was_edited_before_a_later_epoch_stops_the_run(tmp_path, line):
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: late\ninit: [{task: start, steps: [x = 0]}]\n"
        f"epoch: [{{task: work, steps: [x += 1, {{run: {line}}}]}}]\n"
        "stop: [epochs: 4]\ncheckpoint: {every: 1ep}\n"
    )
    script = tmp_path / "add.sh"
    script.write_text('[ "$JOBRUN_EPOCH" = 2 ] && echo "# edited" >> add.sh; true\n')

    stopped = jobrun(tmp_path, "run", "job.yaml")

    assert stopped.returncode == 5, stopped.stderr
    assert "error[E465]" in stopped.stderr
    assert "add.sh" in stopped.stderr
    assert max(epochs(only_run(tmp_path / "runs"))) == 2
