"""Open the store of a run's checkpoints, and find where they are written and uploaded to."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.files.disk import disk_faults, make_directory
from jobrun.core.text.object_url import ObjectUrl, is_object_url, parse_object_url
from jobrun.graph.types import Job
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.stop_requests import StopRequests
from jobrun.session.base import NodeFiles

if TYPE_CHECKING:
    from jobrun.checkpoint.task_groups import UploadBuilder
    from jobrun.runner.saving.upload_to_object_store import ObjectUpload


def open_store(run: Run, job: Job, folder: Path) -> CheckpointStore:
    """Open the store of a run's checkpoints: at ``checkpoint.dir``, or in the run's directory.

    Args:
        run: The run.
        job: What it runs.
        folder: That of its spec, where a relative ``checkpoint.dir`` starts.

    Raises:
        EnvironmentFaultError: A directory outside the run cannot be made.
    """
    if not job.checkpoint.directory:
        return DirectoryStore(str(run.path / "checkpoints"))
    root = _run_directory(run, folder / job.checkpoint.directory)
    with disk_faults("E354", f"make {root}"):
        # Up to three levels are new: the directory itself, the job's and the run's in it.
        make_directory(root, own_names=3)
    return DirectoryStore(str(root))


def node_files(job: Job, store: CheckpointStore, run: Run) -> NodeFiles:
    """Return the places where a run's nodes write checkpoint files for the run's store."""
    policy = job.checkpoint
    if not policy.enabled:
        return NodeFiles()
    if policy.node_dir:
        # A directory for this run only: no other run may find files left by a killed node.
        node_dir = str(Path(policy.node_dir) / f"jobrun-{run.record.run_id}")
        objects = ""
        if policy.collect_to:
            # Lazy, as the imports below: only uploads need them.
            from jobrun.runner.saving.upload_to_object_store import generation_url  # noqa: PLC0415

            objects = str(
                generation_url(find_objects(run, policy.collect_to), run.record.generation)
            )
        return NodeFiles(policy.nodes, node_dir=node_dir, objects=objects)
    return NodeFiles(policy.nodes, epochs_dir=str(Path(store.path(0)).parent))


def open_upload(
    run: Run, job: Job, folder: Path, requests: StopRequests | None = None
) -> UploadBuilder | ObjectUpload | None:
    """Open the destination that ``checkpoint.upload`` names; return its uploader, or None.

    Args:
        run: The run.
        job: What it runs.
        folder: That of its spec, where a relative directory starts.
        requests: Tell whether the run is to end at once, and not to wait for an upload.
    """
    policy = job.checkpoint.upload
    if policy is None:
        return None
    if is_object_url(policy.to):
        from jobrun.runner.rundir.object_store_run import RunLease, upload_record  # noqa: PLC0415
        from jobrun.runner.saving.upload_to_object_store import ObjectUpload  # noqa: PLC0415

        url = find_objects(run, policy.to)
        return ObjectUpload(
            url,
            partial(upload_record, run),
            lambda: bool(requests and requests.dropping),
            RunLease(run.path, url) if job.checkpoint.collect_to else None,
        )
    from jobrun.runner.saving.upload_to_directory import DirectoryUpload  # noqa: PLC0415

    return DirectoryUpload(str(_run_directory(run, folder / policy.to)), job.cluster.nodes[0].name)


def find_objects(run: Run, to: str) -> ObjectUrl:
    """Return the URL at which a run's checkpoints are stored or uploaded: ``to/JOB/RUN``."""
    return parse_object_url(to) / run.record.job / run.path.name


def _run_directory(run: Run, directory: Path) -> Path:
    # Under the run's name: two runs never share a directory.
    return directory / run.record.job / run.path.name
