"""A run's directory against other users, other places, other clocks, and its own children."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command import JOBRUN, bash, environment
from tests.support.command import jobrun as jobrun_itself
from tests.support.faults import FaultLab, library
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned
from tests.support.waiting import wait_until
from tests.support.walk_spec import SPEC

# Long enough to be looked at while it runs, and with a program to look after.
SLOW = SPEC.replace(
    "      - total = total + sum(x)\n",
    "      - total = total + sum(x)\n      - {run: 'sleep 0.15'}\n",
).replace("epochs: 4", "epochs: 6")


_LABS: list[FaultLab] = []


@pytest.fixture(scope="module", autouse=True)
def lab(tmp_path_factory):
    """Forks commands from a process that has everything imported: that is five times as fast."""
    with FaultLab(tmp_path_factory.mktemp("lab")) as lab:
        _LABS.append(lab)
        yield lab
        _LABS.clear()


def jobrun(*arguments, cwd: Path, env=None, timeout_s: float = 60):
    """As ``tests.support.command.jobrun``; in a fork where no variables are given."""
    if env is not None:
        return jobrun_itself(*arguments, cwd=cwd, env=env)
    ended = _LABS[0].run(*arguments, below=cwd, timeout_s=timeout_s)
    return subprocess.CompletedProcess(arguments, ended.code, ended.stdout, ended.stderr)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "walk.yaml").write_text(SPEC)
    return tmp_path


@pytest.fixture(scope="module")
def reference(tmp_path_factory, lab):
    folder = tmp_path_factory.mktemp("reference")
    (folder / "walk.yaml").write_text(SPEC)
    assert jobrun("run", "walk.yaml", cwd=folder).returncode == 0
    return _content(only_run(folder / "runs"))


def _content(run: Path) -> dict[int, object]:
    return {number: blobs(path) for number, path in epochs(run).items()}


def _stopped(folder: Path, *more: str) -> Path:
    done = jobrun("run", "walk.yaml", "--max-epochs", "2", *more, cwd=folder)
    assert done.returncode == 75, done.stderr
    return only_run(folder / "runs")


def _foreign(path: Path) -> None:
    """Give a directory to another user, as only the superuser can."""
    os.chown(path, 12345, 12345)


def _another_users(path: Path, mode: int) -> bool:
    path.chmod(mode)
    if os.geteuid() == 0:
        _foreign(path)
        return True
    return False


@pytest.mark.long
def test_row_41_a_run_that_everyone_may_change_is_refused_unless_trusted(folder, reference):
    run = _stopped(folder)
    if not _another_users(run, 0o777):
        return
    output = jobrun("resume", run, cwd=folder)
    assert output.returncode == 7
    assert "error[E380]" in output.stderr
    assert "everyone may write into it" in output.stderr
    assert jobrun("resume", run, "--trust-dir", cwd=folder).returncode == 0
    assert _content(run) == reference


@pytest.mark.long
def test_row_39_a_link_of_another_user_in_place_of_the_checkpoints_is_refused(folder):
    run = _stopped(folder)
    (run / "checkpoints").rename(run / "elsewhere")
    (run / "checkpoints").symlink_to(run / "elsewhere")
    if os.geteuid() != 0:
        return
    os.lchown(run / "checkpoints", 12345, 12345)
    output = jobrun("resume", run, cwd=folder)
    assert (output.returncode, "error[E380]" in output.stderr) == (7, True), output.stderr


@pytest.mark.long
def test_row_39_a_run_directory_swapped_while_it_runs_gets_nothing_more(folder):
    (folder / "walk.yaml").write_text(SLOW)
    child = _start(folder)
    run = _wait_for_epoch(folder, 1)
    run.rename(run.with_name("moved"))
    shutil.copytree(run.with_name("moved"), run)
    before = list(epochs(run))
    _, output = child.communicate(timeout=60)
    assert child.returncode == 7, output
    assert "Traceback" not in output
    assert list(epochs(run)) == before


@pytest.mark.long
def test_row_47_a_copy_by_rsync_or_cp_continues_elsewhere(folder, tmp_path_factory, reference):
    run = _stopped(folder)
    other = tmp_path_factory.mktemp("elsewhere") / "deep" / "er"
    other.parent.mkdir()
    copier = ["rsync", "-a"] if shutil.which("rsync") else ["cp", "-r"]
    subprocess.run([*copier, f"{folder}/", str(other)], check=True)
    shutil.rmtree(folder)
    done = jobrun("resume", cwd=other)
    assert done.returncode == 0, done.stderr
    assert _content(other / run.relative_to(folder)) == reference


@pytest.mark.long
def test_row_48_a_copy_made_while_it_runs_verifies_or_is_refused(folder, tmp_path_factory):
    (folder / "walk.yaml").write_text(SLOW)
    child = _start(folder)
    copies = []
    for number in range(4):
        run = _wait_for_epoch(folder, number)
        copies.append(tmp_path_factory.mktemp("copy") / "all")
        # Files may come and go under it: that is the point.
        subprocess.run(["cp", "-r", str(folder), str(copies[-1])], check=False, capture_output=True)
    child.communicate(timeout=60)
    assert child.returncode == 0
    whole = _content(run)
    for copy in copies:
        done = jobrun("resume", copy / run.relative_to(folder), "--json", cwd=copy)
        assert done.returncode in (0, 4), done.stderr
        if done.returncode == 0:
            actual = _content(copy / run.relative_to(folder))
            assert actual == {number: whole[number] for number in actual}


def test_row_42_an_unwritable_directory_is_reported_at_the_start(folder):
    (folder / "file").write_text("")
    done = jobrun("run", "walk.yaml", "--run-dir", "file/runs", cwd=folder)
    assert done.returncode == 7, done.stderr
    assert "error[E354]" in done.stderr
    assert "epoch" not in done.stderr


@pytest.mark.long
def test_row_45_a_directory_removed_under_us_ends_with_words(folder):
    (folder / "walk.yaml").write_text(SLOW)
    child = _start(folder)
    run = _wait_for_epoch(folder, 1)
    shutil.rmtree(run, ignore_errors=True)
    _, output = child.communicate(timeout=60)
    assert child.returncode == 7, output
    assert "error[E" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("name", ["run.json", "committed.jsonl"])
@pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
def test_a_record_that_is_no_plain_file_is_refused_without_waiting(folder, name, kind):
    run = _stopped(folder)
    (run / name).rename(folder / name)
    if kind == "fifo":
        os.mkfifo(run / name)
    elif kind == "link":
        (run / name).symlink_to(folder / name)
    else:
        (run / name).mkdir()
    done = jobrun("resume", run, cwd=folder, timeout_s=30)
    assert done.returncode in (4, 7), done.stderr
    assert "error[E" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("policy", ["auto", "must"])
def test_a_damaged_record_never_makes_a_run_start_over(folder, policy):
    run = _stopped(folder)
    (run / "run.json").write_text("{")
    done = jobrun("run", "walk.yaml", "--resume", policy, cwd=folder)
    assert done.returncode == 4, done.stderr
    assert "run.json is damaged" in done.stderr
    assert "--resume never" in done.stderr
    assert only_run(folder / "runs") == run
    assert jobrun("run", "walk.yaml", "--resume", "never", cwd=folder).returncode == 0


@pytest.mark.long
def test_row_65_an_epoch_that_is_gone_needs_the_users_word(folder, reference):
    run = _stopped(folder)
    shutil.rmtree(epochs(run)[2])
    refused = jobrun("resume", cwd=folder)
    assert (refused.returncode, "--allow-lost" in refused.stderr) == (4, True), refused.stderr
    done = jobrun("resume", "--allow-lost", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "LOST: epoch 2" in done.stderr
    assert _content(run) == reference


@pytest.mark.long
def test_row_34_what_is_preloaded_does_not_reach_programs(folder):
    """LD_PRELOAD is really in force in the run, and really not in what it starts."""
    (folder / "walk.yaml").write_text(
        SPEC.replace(
            "      - total = total + sum(x)\n",
            "      - total = total + sum(x)\n      - {run: 'env > seen.txt; cat /proc/self/maps >"
            " maps.txt', env: [WANTED]}\n",
        )
    )
    log = folder / "calls"
    done = jobrun(
        "run",
        "walk.yaml",
        cwd=folder,
        env=environment(
            LD_PRELOAD=str(library()),
            FAULTS_ROOT=str(folder),
            FAULTS_LOG=str(log),
            PYTHONPATH="/nowhere",
            LD_LIBRARY_PATH="/nowhere",
            BASH_ENV=str(folder / "evil.sh"),
            WANTED="yes",
        ),
    )
    assert done.returncode == 0, done.stderr
    assert "fsync" in log.read_text()
    seen = (folder / "seen.txt").read_text()
    assert "WANTED=yes" in seen
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "BASH_ENV", "FAULTS"):
        assert name not in seen, name
    assert library().name not in (folder / "maps.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize("number", thinned([signal.SIGKILL, signal.SIGTERM], 2))
def test_row_82_no_program_outlives_the_run(folder, number):
    (folder / "walk.yaml").write_text(
        SLOW.replace("sleep 0.15", "echo $$$$ > pid; sleep 300 & sleep 300")
    )
    child = _start(folder, "--grace", "1s")
    pid = int(_wait_for(folder / "pid"))
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == (75 if number == signal.SIGTERM else -number)
    wait_until(lambda: not _group(pid), "end of the group")


@pytest.mark.long
def test_row_82_a_batch_script_repeats_one_line_until_it_is_done(folder, reference):
    line = "until jobrun run walk.yaml --resume auto --max-epochs 1; do [ $? = 75 ] || exit 1; done"
    code, _, output = bash(line, folder)
    assert code == 0, output
    assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
def test_row_83_a_wall_clock_that_jumps_by_days_changes_nothing(folder, reference):
    env = environment(LD_PRELOAD=str(library()), FAULTS_CLOCK="86400")
    done = jobrun("run", "walk.yaml", "--time", "1h", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
@pytest.mark.timeout(300)
def test_runs_keep_their_order_when_the_clock_is_set_back_a_day_between_them(folder):
    def start(*words, clock=0):
        env = environment(LD_PRELOAD=str(library()), FAULTS_CLOCK_SET=str(clock))
        return jobrun("run", "walk.yaml", "--max-epochs", "1", *words, cwd=folder, env=env)

    assert start("--resume", "never").returncode == 75
    first = only_run(folder / "runs")
    assert start("--resume", "never", clock=-86400).returncode == 75
    assert start("--resume", "never", clock=-2 * 86400).returncode == 75
    runs = {path for path in (folder / "runs" / "walk").iterdir() if not path.is_symlink()}
    # Names are of the clock; the last that was made has the oldest.
    newest = min(runs)
    assert (
        json.loads((newest / "run.json").read_text())["created"]
        < json.loads((first / "run.json").read_text())["created"]
    )

    named = [
        jobrun("status", "latest", "--json", cwd=folder).stdout,
        jobrun("status", "walk", "--json", cwd=folder).stdout,
        jobrun("resume", "--dry-run", "--json", cwd=folder).stdout,
    ]
    assert [newest.name in text for text in named] == [True] * 3
    assert (folder / "runs" / "walk" / "latest").resolve() == newest.resolve()
    before = {run: (run / "committed.jsonl").read_bytes() for run in runs}
    assert start("--resume", "auto").returncode == 75
    changed = {run for run in runs if (run / "committed.jsonl").read_bytes() != before[run]}
    assert changed == {newest}
    assert start("--resume", "never").returncode == 75
    created = {
        path for path in (folder / "runs" / "walk").iterdir() if not path.is_symlink()
    } - runs
    assert jobrun("resume", "--dry-run", cwd=folder).stdout.count(created.pop().name) >= 1


def test_a_run_of_an_older_version_or_copied_from_elsewhere_has_its_place_by_the_clock(folder):
    old = _stopped(folder)
    record = json.loads((old / "run.json").read_text())
    del record["order"]
    (old / "run.json").write_text(json.dumps(record))
    done = jobrun("run", "walk.yaml", "--resume", "never", "--max-epochs", "1", cwd=folder)
    assert done.returncode == 75
    shutil.copytree(old, old.with_name("20200101-0000-copied-one"), symlinks=True)

    done = jobrun("resume", "--dry-run", cwd=folder)

    assert old.name not in done.stdout
    assert "copied-one" not in done.stdout


@pytest.mark.long
def test_a_deadline_is_kept_and_the_same_line_continues(folder, reference):
    (folder / "walk.yaml").write_text(SPEC + "deadline: auto\nmargin: 59s\n")
    env = environment(JOBRUN_DEADLINE=str(int(time.time()) + 58))
    done = jobrun("run", "walk.yaml", cwd=folder, env=env)
    assert done.returncode == 75, done.stderr
    assert "deadline" in done.stderr
    done = jobrun("run", "walk.yaml", "--resume", "auto", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
def test_what_a_run_writes_can_be_read_by_others_and_changed_by_none(folder):
    code, _, output = bash("umask 0; jobrun run walk.yaml", folder)
    assert code == 0, output
    run = only_run(folder / "runs")
    loose = [path for path in run.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o022]
    assert [path for path in loose if not path.is_symlink()] == []
    assert str(folder) not in (run / "run.json").read_text()
    assert json.loads((run / "run.json").read_text())["file_system"]


def _start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*JOBRUN, "run", "walk.yaml", *more],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for_epoch(folder: Path, number: int) -> Path:
    saved = f"runs/*/2*/checkpoints/epoch-{number:06d}"
    wait_until(lambda: any(folder.glob(saved)), f"epoch {number}")
    return next(folder.glob(saved)).parent.parent


def _wait_for(path: Path) -> str:
    wait_until(lambda: path.is_file() and path.read_text().strip(), f"text in {path}")
    return path.read_text()


def _group(pgid: int) -> list[int]:
    """The living processes of a process group."""
    collected = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == pgid and fields[0] != "Z":
            collected.append(int(path.parent.name))
    return collected
