"""Where a run's checkpoints are, and where they are copied to. Paths only; nothing is read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.store import CheckpointStore
from jobrun.checkpoint.upload import DirectoryUpload, UploadBuilder
from jobrun.core.objecturl import ObjectUrl, is_object_url, parse_object_url
from jobrun.graph.types import Job
from jobrun.runner.durable import disk_faults, make_directory
from jobrun.runner.holding import Holding
from jobrun.runner.rundir import Run
from jobrun.runner.sending import ObjectUpload, generation_place
from jobrun.runner.signals import StopRequests
from jobrun.session.nodefiles import NodeFiles


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
        # Of the job, and of the run: see below.
        make_directory(root, own=3)
    return DirectoryStore(str(root))


def node_files(job: Job, store: CheckpointStore, run: Run) -> NodeFiles:
    """Where the nodes of a run write their files of epochs."""
    policy = job.checkpoint
    if not policy.enabled:
        return NodeFiles()
    if policy.node_dir:
        # Of this run alone: what a node that was killed has left there is nobody else's.
        own = str(Path(policy.node_dir) / f"jobrun-{run.record.run_id}")
        objects = ""
        if policy.collect_to:
            objects = str(
                generation_place(objects_of(run, policy.collect_to), run.record.generation)
            )
        return NodeFiles(policy.nodes, node_dir=own, objects=objects)
    return NodeFiles(policy.nodes, epochs_dir=str(Path(store.path(0)).parent))


def upload_of(
    run: Run, job: Job, folder: Path, requests: StopRequests | None = None
) -> UploadBuilder | ObjectUpload | None:
    """What ``checkpoint.upload`` means for a run; None where the spec has none.

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
        # Only who uploads there needs this.
        from jobrun.runner.remoterun import bring_record  # noqa: PLC0415

        url = objects_of(run, policy.to)
        return ObjectUpload(
            url,
            partial(bring_record, run),
            lambda: bool(requests and requests.dropping),
            Holding(run.path, url) if job.checkpoint.collect_to else None,
        )
    return DirectoryUpload(str(_of_run(run, folder / policy.to)), job.cluster.nodes[0].name)


def objects_of(run: Run, to: str) -> ObjectUrl:
    """The place of a run below a URL."""
    return parse_object_url(to) / run.record.job / run.path.name


def _of_run(run: Run, place: Path) -> Path:
    # Under the run's name: two runs never share a place.
    return place / run.record.job / run.path.name
