"""A killed run goes on with another number of nodes, in any session: the rows are those of one."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.support.command import JOBRUN, environment, jobrun
from tests.support.elastic_job import SPEC, Elastic

SLOW = SPEC.replace("[n = n + 1]", "[n = n + 1, {run: [sleep, '0.2']}]").replace("5}]", "60}]")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    job = Elastic(tmp_path_factory.mktemp("unbroken"), SPEC.replace("5}]", "60}]"))
    job.run(3)
    return job.whole(60)


def _kill_within(job, *arguments):
    """Kill a command as soon as a few epochs are saved."""
    command = [*JOBRUN, *arguments]
    child = subprocess.Popen(command, cwd=job.folder, env=environment(), start_new_session=True)
    journal = "runs/part/latest/committed.jsonl"
    before = None
    while child.poll() is None:
        path = job.folder / journal
        lines = path.read_text().count("\n") if path.exists() else 0
        before = lines if before is None else before
        if lines > before + 3:
            break
        time.sleep(0.01)
    assert child.poll() is None
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "sessions", [("processes", "threads", "processes"), ("threads", "processes", "threads")]
)
def test_a_killed_run_continues_with_other_nodes_in_another_session(tmp_path, unbroken, sessions):
    job = Elastic(tmp_path, SLOW)
    first, second, third = sessions
    _kill_within(job, "run", job.write(2), "--session", first)
    _kill_within(job, "resume", "--spec", job.write(4), "--session", second)
    job.text = SPEC.replace("5}]", "60}]")
    done = jobrun(
        "resume",
        "--spec",
        job.write(3),
        "--session",
        third,
        "--accept-drift",
        "epoch",
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert [entry["now"] for entry in job.newest.record.resized] == [4, 3]
    assert job.whole(60) == unbroken


def test_a_dry_run_says_what_another_number_of_nodes_means_and_changes_nothing(tmp_path):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=2)
    before = (job.newest.path / "run.json").read_bytes()
    done = jobrun("resume", "--spec", job.write(4), "--dry-run", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "'t': 2 before, 4 now; U redistributed by rows, V the same on all" in done.stdout
    assert "nodes.t.count: was 2, is 4 (declared safe" in done.stdout
    assert "on other nodes other numbers are drawn" in done.stdout
    assert (job.newest.path / "run.json").read_bytes() == before


def test_a_dry_run_of_an_undeclared_change_reports_it_and_exits_like_the_resume(tmp_path):
    job = Elastic(tmp_path, SPEC.replace(", V: replicated", ""))
    job.run(2, max_epochs=2)
    done = jobrun("resume", "--spec", job.write(4), "--dry-run", cwd=tmp_path)

    assert done.returncode == 5
    assert "(semantic, refused" in done.stdout
    assert "error[E387]" in done.stderr
    assert "part.yaml:12:9  init/all/steps[2]: 'V' of t_0, t_1 is declared" in done.stderr


LIBRARY = """\
import os
import pathlib
import signal


def die_once(folder, epoch):
    mark = pathlib.Path(folder, "died")
    if epoch == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_node_lost_in_the_first_epoch_on_other_nodes_costs_no_bit(tmp_path):
    """What is rebuilt on each node is another part now, and is not compared after the loss."""
    (tmp_path / "elastic_library.py").write_text(LIBRARY)
    rebuilt = (
        "init:\n"
        "  - {task: part, node: t, rebuild: true, "
        "steps: [C = arange(float(rows)) / node.count + node.index]}\n"
    )
    dying = "[{call: elastic_library:die_once, with: {folder: \"'FOLDER'\", epoch: epoch}}, U"
    text = SPEC.replace("init:\n", rebuilt).replace("steps: [U *=", f"steps: {dying} *=")
    job = Elastic(tmp_path, text.replace("FOLDER", str(tmp_path)))

    first = jobrun("run", job.write(2), "--session", "processes", "--max-epochs", "2", cwd=tmp_path)
    done = jobrun("resume", "--spec", job.write(4), "--session", "processes", cwd=tmp_path)

    assert first.returncode == 75, first.stderr
    assert done.returncode == 0, done.stderr
    assert "is lost" in done.stderr
    assert (tmp_path / "died").exists()
    plain = Elastic(tmp_path / "plain", SPEC)
    plain.folder.mkdir()
    plain.run(2)
    assert job.whole(5) == plain.whole(5)
