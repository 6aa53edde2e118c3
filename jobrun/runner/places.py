"""Where a run's checkpoints are, and where they are copied to. Paths only; nothing is read."""

from __future__ import annotations

from pathlib import Path

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.store import CheckpointStore
from jobrun.checkpoint.upload import DirectoryUpload, UploadBuilder
from jobrun.graph.types import Job
from jobrun.runner.durable import disk_faults, make_directory
from jobrun.runner.rundir import Run


def store_of(run: Run, job: Job, folder: Path) -> CheckpointStore:
    """The store of a run.

    Args:
        run: The run.
        job: What it runs.
        folder: That of its spec, where a relative ``checkpoint.dir`` starts.

    Raises:
        EnvironmentFaultError: A directory outside the run cannot be made.
    """
    if not job.checkpoint.directory:
        return DirectoryStore(str(run.path / "checkpoints"))
    root = _of_run(run, folder / job.checkpoint.directory)
    with disk_faults(f"make {root}"):
        make_directory(root)
    return DirectoryStore(str(root))


def upload_of(run: Run, job: Job, folder: Path) -> UploadBuilder | None:
    """What ``checkpoint.upload`` means for a run; None where the spec has none."""
    policy = job.checkpoint.upload
    if policy is None:
        return None
    return DirectoryUpload(str(_of_run(run, folder / policy.to)), job.cluster.nodes[0].name)


def _of_run(run: Run, place: Path) -> Path:
    # Under the run's name: two runs never share a place.
    return place / run.record.job / run.path.name
