"""Let an older commit of jobrun run the jobs of ``tests/older_versions``, and pack what it leaves.

``python -m tests.support.older_versions COMMIT`` writes ``tests/older_versions/COMMIT.tar.xz``: the
jobs, and their runs, which ended early. A release adds one; those of before are never made again.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.support.command import ROOT, environment

FOLDER = ROOT / "tests" / "older_versions"
JOBS = ("arrays", "packed", "containers", "generator", "midway")
EPOCHS_BEFORE, EPOCHS = 4, 7
# The count of records in the second epoch at which the job ``midway`` is killed, and its epochs.
KILLED_AT, EPOCHS_MIDWAY = 37, 3


def specs_of(job: str) -> list[str]:
    """Return the arguments of ``jobrun run`` that name the specs of a job."""
    return ["arrays.yaml", "-f", "packed.yaml"] if job == "packed" else [f"{job}.yaml"]


def write_runs(commit: str, path: Path, jobs: tuple[str, ...]) -> None:
    """Run jobs by the code of a commit, and write them and their runs to a compressed archive."""
    with tempfile.TemporaryDirectory() as name:
        code, work = Path(name) / "code", Path(name) / "work"
        code.mkdir()
        archive = subprocess.run(
            ["git", "archive", commit, "jobrun"], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
            tree.extractall(code, filter="data")
        work.mkdir()
        for source in (FOLDER / "jobs").iterdir():
            if source.is_file():
                (work / source.name).write_bytes(source.read_bytes())
        for job in jobs:
            _run(job, work, code)
        with tarfile.open(path, "w:xz", preset=9) as packed:
            for part in sorted(work.iterdir()):
                if part.name != "__pycache__":
                    packed.add(part, part.name, filter=_without_owner)


def _run(job: str, work: Path, code: Path) -> None:
    """Run one job by the code in a folder, until it stops early or is killed."""
    ended_at = str(KILLED_AT) if job == "midway" else ""
    command = [sys.executable, "-m", "jobrun", "run", *specs_of(job), "--run-dir", "runs"]
    done = subprocess.run(
        [*command, "--max-epochs", str(EPOCHS_BEFORE)],
        cwd=work,
        env=environment(PYTHONPATH=str(code), PYTHONDONTWRITEBYTECODE="1", ENDED_AT=ended_at),
        check=False,
    )
    print(f"{job} ended with {done.returncode}")


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Read the command line: a commit, and which jobs it can run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("jobs", nargs="*", default=JOBS, metavar="JOB")
    options = parser.parse_args()
    path = FOLDER / f"{options.commit}.tar.xz"
    write_runs(options.commit, path, tuple(options.jobs))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
