"""What a program keeps in its directory is state: killed, resumed, limited, measured, compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command import bash, jobrun
from tests.support.stored_runs import only_run

SPEC = """\
jobrun: 1
name: keeps
init: [{task: start, steps: [n = 0]}]
epoch:
  - task: t
    steps:
      - n = n + 1
      - run: >-
          cd $JOBRUN_STATE_DIR; truncate -s 8G sparse; echo $JOBRUN_EPOCH >> log;
          test -e other || ln log other; ln -sf log $'\\xff'; mkdir -p empty; chmod 500 empty;
          test -e big || head -c SIZE /dev/urandom > big; ls -l --time-style=full-iso big
        state_dir: DIRECTORY
stop: [{epochs: 4}]
checkpoint: {every: 1ep}
"""


def _spec(path: Path, size: int = 1000, directory: str = "own", case: str = "zero") -> Path:
    text = SPEC.replace("SIZE", str(size)).replace("DIRECTORY", directory)
    (path / "keeps.yaml").write_text(text.replace("/dev/urandom", f"/dev/{case}"))
    return path


@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_resumed_run_finds_all_as_it_was(session, tmp_path):
    _spec(tmp_path)
    words = ("--session", session)
    assert jobrun("run", "keeps.yaml", "--max-epochs", "2", *words, cwd=tmp_path).returncode == 75
    run = only_run(tmp_path / "runs")
    separate = run / "state_dirs" / "local" / "own"
    before = {path.name: path.lstat().st_mtime_ns for path in separate.iterdir()}
    bash(f"chmod -R u+rwx '{separate}'; rm -r '{separate}'", tmp_path)
    done = jobrun("resume", "--max-epochs", "1", *words, cwd=tmp_path)
    assert done.returncode == 75, done.stderr

    after = {path.name: path.lstat().st_mtime_ns for path in separate.iterdir()}
    assert {name: after[name] for name in ("big", "empty")} == {
        name: before[name] for name in ("big", "empty")
    }
    assert (separate / "log").read_text() == "1\n2\n3\n"
    assert (separate / "other").samefile(separate / "log")
    assert (separate / "sparse").stat().st_blocks == 0


def test_how_much_it_is_is_shown_by_plan_and_at_the_first_save(tmp_path):
    _spec(tmp_path, 3_000_000, "{name: own, max_size: 4MB}")
    before = jobrun("plan", "keeps.yaml", cwd=tmp_path).stdout
    done = jobrun("run", "keeps.yaml", cwd=tmp_path)
    after = jobrun("plan", "keeps.yaml", cwd=tmp_path).stdout
    document = json.loads(jobrun("plan", "keeps.yaml", "--json", cwd=tmp_path).stdout)

    assert "its first save says how much that is" in before
    assert "at most 3.8 MiB" in before
    assert done.stderr.count("the 'state_dir' own of task t holds 2.9 MiB (max_size 3.8 MiB)") == 1
    assert "by its newest run, a save stores 2.9 MiB of the state_dir local.own" in after
    assert 3_000_000 < document["state_dir_bytes"]["local.own"] < 3_020_000


def test_more_than_its_limit_fails_the_epoch_and_loses_nothing(tmp_path):
    _spec(tmp_path, 10, "{name: own, max_size: 100kB}")
    text = (tmp_path / "keeps.yaml").read_text()
    more = "test $JOBRUN_EPOCH != 3 || head -c 150000 /dev/zero > huge; ls -l"
    text = text.replace("ls -l", more)
    (tmp_path / "keeps.yaml").write_text(text)
    done = jobrun("run", "keeps.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "error[E416] keeps.yaml:8:9" in done.stderr
    assert "the largest file is 'huge' with 146.5 KiB" in done.stderr
    assert "epoch 2 is saved" in done.stderr
    (tmp_path / "keeps.yaml").write_text(text.replace("100kB", "1MB"))
    assert jobrun("resume", "--spec", "keeps.yaml", cwd=tmp_path).returncode == 0
    assert json.loads((only_run(tmp_path / "runs") / "run.json").read_text())["epoch"] == 4


@pytest.mark.parametrize("size", ["0MB", "much", "-1", "1.5.2GB", "null-ish"])
def test_a_limit_that_is_no_size_is_refused_with_its_place(size, tmp_path):
    _spec(tmp_path, 10, f"{{name: own, max_size: {size}}}")
    done = jobrun("validate", "keeps.yaml", cwd=tmp_path)

    assert done.returncode == 3
    assert "keeps.yaml:12:" in done.stderr
    assert "expected a size such as 500MB or 2GiB" in done.stderr


def test_when_files_were_written_is_no_difference(tmp_path):
    _spec(tmp_path)
    done = jobrun("prove", "keeps.yaml", "--epochs", "3", "--kills", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_run_needs_no_memory_for_it(tmp_path):
    _spec(tmp_path, 500 << 20, case="urandom")
    for words in (("run", "keeps.yaml", "--max-epochs", "2"), ("resume",)):
        done = jobrun(*words, cwd=tmp_path, started=True)
        assert done.returncode in (0, 75), done.stderr
        most = re.search(r"memory +at most ([\d.]+) MiB", done.stderr + done.stdout)
        assert most is not None
        assert float(most[1]) < 200
