"""Hostile command lines and environments, one row each: what must come of them."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.support.command import bash, environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned
from tests.support.walk_spec import SPEC


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "walk.yaml").write_text(SPEC)
    return tmp_path


def _ran(folder: Path, *more: str, env=None) -> Path:
    done = jobrun("run", "walk.yaml", *more, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return only_run(folder / "runs")


def _refused(done, exit_code: int) -> str:
    """The words of a refusal: the right exit code, an error line, no traceback."""
    assert done.returncode == exit_code, done.stderr
    assert "error[E" in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """An undisturbed run; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "walk.yaml").write_text(SPEC)
    return _ran(folder)


@pytest.fixture(scope="module")
def reference(finished) -> dict[str, object]:
    """All its blobs, by epoch."""
    return _content(finished)


def _content(run: Path) -> dict[str, object]:
    return {str(number): blobs(path) for number, path in epochs(run).items()}


def test_row_25_an_unknown_command_or_option_is_refused_with_the_nearest_name(folder):
    assert "did you mean 'resume'?" in _refused(jobrun("resum", cwd=folder), 2)
    errors = _refused(jobrun("run", "walk.yaml", "--epoch", "3", cwd=folder), 2)
    assert "did you mean '--epochs'?" in errors
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("epoch", "exit_code"), [("99", 4), ("-1", 2), ("1e3", 2), ("latst", 2), ("1.5", 2)]
)
def test_row_26_an_epoch_that_is_not_there_is_refused(finished, epoch, exit_code):
    before = _content(finished)
    errors = _refused(jobrun("resume", finished, "--epoch", epoch), exit_code)
    if exit_code == 4:
        assert "there are epochs 0-4" in errors
    assert _content(finished) == before


def test_row_27_what_is_no_run_cannot_be_resumed(folder):
    (folder / "empty").mkdir()
    assert "not a jobrun run directory" in _refused(jobrun("resume", "./empty", cwd=folder), 4)
    assert "not a jobrun run directory" in _refused(jobrun("resume", "./missing", cwd=folder), 4)
    _refused(jobrun("resume", cwd=folder), 4)


def test_row_28_an_unfinished_run_is_not_started_over_by_accident(folder):
    stopped = jobrun("run", "walk.yaml", "--max-epochs", "2", cwd=folder)
    assert stopped.returncode == 75, stopped.stderr
    run = only_run(folder / "runs")
    before = _content(run)
    errors = _refused(jobrun("run", "walk.yaml", cwd=folder), 2)
    assert f"jobrun resume walk/{run.name}" in errors
    assert "jobrun run walk.yaml --resume never" in errors
    assert only_run(folder / "runs") == run
    assert _content(run) == before


def test_row_29_a_changed_spec_is_refused_field_by_field(folder):
    jobrun("run", "walk.yaml", "--max-epochs", "2", cwd=folder)
    (folder / "walk.yaml").write_text(SPEC.replace("rate: 0.5", "rate: 0.25"))
    errors = _refused(jobrun("run", "walk.yaml", "--resume", "auto", cwd=folder), 5)
    assert "params.rate" in errors
    assert "0.5" in errors
    assert "0.25" in errors
    assert "walk.yaml:4" in errors
    accepted = ("resume", "--spec", "walk.yaml", "--accept-drift", "params.rate")
    done = jobrun(*accepted, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_row_29_more_epochs_are_no_drift(folder):
    run = _ran(folder)
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 6"))
    done = jobrun("run", "walk.yaml", "--resume", "auto", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert max(epochs(run)) == 6


def test_row_30_another_callable_is_refused(folder):
    (folder / "tools.py").write_text("def bump(x):\n    return x + 1\n")
    spec = SPEC.replace(
        "      - total = total",
        '      - {call: "tools:bump", with: {x: x}, out: x}\n      - total = total',
    )
    (folder / "walk.yaml").write_text(spec)
    done = jobrun("run", "walk.yaml", "--max-epochs", "2", cwd=folder)
    assert done.returncode == 75, done.stderr
    (folder / "tools.py").write_text("def bump(x):\n    return x + 2\n")
    assert "tools:bump" in _refused(jobrun("resume", cwd=folder), 5)


def test_row_30_the_versions_are_recorded(folder):
    record = json.loads((_ran(folder) / "run.json").read_text())
    assert {"numpy", "h5py"} <= set(json.dumps(record["environment"]).replace('"', " ").split())


@pytest.mark.long
def test_row_31_a_reader_that_goes_away_loses_no_epoch(folder, reference):
    code, _, errors = bash("set -o pipefail; jobrun run walk.yaml -v 2>&1 | head -1", folder)
    assert code == 0, errors
    assert "Traceback" not in errors
    assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
@pytest.mark.parametrize("closing", thinned([">&- 2>&- <&-", ">&-", "2>&-"], 3))
def test_row_31_closed_streams_lose_no_epoch_and_get_no_file(folder, reference, closing):
    code, out, errors = bash(f"jobrun run walk.yaml -v {closing}", folder)
    assert (code, "Traceback" in out + errors) == (0, False)
    assert _content(only_run(folder / "runs")) == reference


def test_row_31_machine_output_into_head_is_no_failure(folder):
    code, out, errors = bash("set -o pipefail; jobrun explain | head -1", folder)
    assert (code, errors, len(out.splitlines())) == (0, "", 1)


def test_row_31_machine_output_onto_a_full_device_is_reported(folder):
    code, _, errors = bash("jobrun explain > /dev/full", folder)
    assert code == 7
    assert "error[E410]" in errors
    assert "Traceback" not in errors


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    thinned(
        [
            {"HOME": None, "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "1"},
            {"HOME": "/nowhere", "TZ": ":/no/such/zone", "LANG": "C", "LC_ALL": "C"},
            {"PYTHONHASHSEED": "12345", "COLUMNS": "0", "TERM": "nonsense"},
            {"LC_ALL": "xx_XX.nonsense", "PYTHONIOENCODING": "ascii"},
        ],
        4,
    ),
    ids=str,
)
def test_row_32_the_environment_does_not_change_the_bits(folder, reference, changes):
    assert _content(_ran(folder, env=environment(**changes))) == reference


@pytest.mark.long
@pytest.mark.parametrize("umask", thinned(["000", "077", "022"], 3))
def test_row_32_the_umask_is_kept_and_nothing_is_writable_by_all(folder, reference, umask):
    code, _, errors = bash(f"umask {umask}; jobrun run walk.yaml", folder)
    assert code == 0, errors
    run = only_run(folder / "runs")
    assert _content(run) == reference
    for path in [run, *run.rglob("*")]:
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & int(umask, 8) == 0, path
        assert mode & 0o022 == 0, path


@pytest.mark.long
def test_row_32_a_deleted_working_directory_is_an_error_not_a_crash(folder):
    gone = folder / "gone"
    gone.mkdir()
    code, _, errors = bash(f"cd gone; rmdir '{gone}'; jobrun run ../walk.yaml", folder)
    assert code in (3, 7), errors
    assert "error[E" in errors
    assert "working directory" in errors
    assert "Traceback" not in errors


@pytest.mark.long
def test_row_32_a_deleted_working_directory_does_not_matter_to_full_paths(folder, reference):
    gone = folder / "gone"
    gone.mkdir()
    code, _, errors = bash(
        f"cd gone; rmdir '{gone}'; jobrun run '{folder}/walk.yaml' --run-dir '{folder}/runs'",
        folder,
    )
    assert code == 0, errors
    assert _content(only_run(folder / "runs")) == reference


def _under_a_limit(folder: Path, limit: str) -> tuple[int, str]:
    code, _, errors = bash(f"ulimit {limit}; jobrun run walk.yaml", folder)
    assert "Traceback" not in errors, errors
    return code, errors


@pytest.mark.long
@pytest.mark.parametrize("limit", thinned(["-n 16", "-n 10", "-n 20", "-n 24"], 4))
def test_row_33_few_open_files_are_enough_or_are_reported(folder, reference, limit):
    code, errors = _under_a_limit(folder, limit)
    assert code in (0, 7), errors
    if code == 7:
        assert "error[E" in errors
    else:
        assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
def test_row_33_a_limit_on_the_size_of_files_is_reported_and_then_resumed_from(folder, reference):
    code, errors = _under_a_limit(folder, "-f 1")
    assert code == 7, errors
    assert "error[E" in errors
    done = jobrun("run", "walk.yaml", "--resume", "auto", cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("kib", thinned([120_000, 60_000, 250_000], 3))
def test_row_33_too_little_memory_is_reported(folder, reference, kib):
    code, errors = _under_a_limit(folder, f"-v {kib}")
    assert code in (0, 1, 7), errors
    if code:
        assert "error" in errors.lower()
    else:
        assert _content(only_run(folder / "runs")) == reference


@pytest.mark.long
def test_row_34_a_program_inherits_only_what_is_listed(folder):
    lines = "      - {run: 'env > seen.txt', env: [WANTED]}\n"
    (folder / "walk.yaml").write_text(
        SPEC.replace("      - total = total", lines + "      - total = total")
    )
    plain = shutil.which("env") or ""
    assert plain
    env = environment(
        PYTHONPATH=str(folder), WANTED="yes", UNWANTED="no", LD_PRELOAD=None, PYTHONSTARTUP="/x"
    )
    _ran(folder, env=env)
    seen = dict(
        line.split("=", 1) for line in (folder / "seen.txt").read_text().splitlines() if "=" in line
    )
    assert seen["WANTED"] == "yes"
    assert not {"UNWANTED", "PYTHONPATH", "LD_PRELOAD", "PYTHONSTARTUP"} & set(seen)
    assert seen["PATH"] == os.environ["PATH"]
