"""Where nodes write their files first, if not where the epochs are. Only what could lose none."""

from __future__ import annotations

from dataclasses import replace

from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.core.objecturl import is_object_url, parse_object_url
from jobrun.core.origin import Origin
from jobrun.graph.conditions import CheckpointPolicy, UploadPolicy
from jobrun.spec.models import CheckpointSpec
from jobrun.spec.source import path_text

MASTER = "master"
_DIR = ("checkpoint", "node_dir")
_COLLECT = ("checkpoint", "collect")


def collecting(
    policy: CheckpointPolicy, written: CheckpointSpec, context: Context
) -> CheckpointPolicy:
    """The policy with ``node_dir`` and ``collect``; what could lose state is a fault.

    Without ``collect`` a node's file would be lost with the node.
    """
    faults = context.faults
    if written.node_dir is not None and written.collect is None:
        message = "a file that is only in 'node_dir' is lost with its node, so no epoch could count"
        mend = "write collect: master beside it; or leave it out where all nodes see 'dir'"
        faults.error("E127", message, mend, _place(context, _DIR))
    elif written.node_dir is None and written.collect is not None:
        message = "'collect' has no effect without 'node_dir'"
        mend = "write node_dir: /a/directory/of/each/node beside it, or leave it out"
        faults.error("E127", message, mend, _place(context, _COLLECT))
    elif written.node_dir == "":
        # Else it would be as if it were not written at all.
        _not_absolute(written.node_dir, _place(context, _DIR), faults)
    if written.node_dir is None or written.collect is None:
        return policy
    url = _url(written.collect)
    policy = replace(policy, node_dir=written.node_dir, collect_to=url)
    check_collecting(policy, _place(context, _DIR), _place(context, _COLLECT), faults)
    return with_manifests(policy, context.source.at(_COLLECT)) if url else policy


def check_collecting(policy: CheckpointPolicy, place: Place, at: Place, faults: Faults) -> None:
    """Note why files cannot be collected from there; of no ``node_dir`` there is nothing to say.

    Args:
        policy: As it is written.
        place: Where ``node_dir`` is.
        at: Where it is said who collects.
        faults: Take it.
    """
    if policy.node_dir and not policy.node_dir.startswith("/"):
        _not_absolute(policy.node_dir, place, faults)
    if policy.collect_to:
        _check_store(policy, at, faults)
    elif policy.node_dir and policy.upload is not None and not is_object_url(policy.upload.to):
        message = "nodes copy to a directory what they see, and with 'node_dir' they see no epochs"
        mend = "upload to an object store (s3://bucket/runs), or put 'dir' on the disk meant"
        faults.error("E127", message, mend, place)


def with_manifests(policy: CheckpointPolicy, at: Origin) -> CheckpointPolicy:
    """The policy by which the manifests go where the nodes bring their files."""
    upload = UploadPolicy(policy.collect_to, "committed", required=True)
    return replace(policy, upload=upload, upload_at=at)


def _url(collect: str) -> str:
    """As the object store's URL is usually written; what is none stays, and is a fault later."""
    try:
        return "" if collect == MASTER else str(parse_object_url(collect))
    except ValueError:
        return collect


def _check_store(policy: CheckpointPolicy, at: Place, faults: Faults) -> None:
    mend = "write collect: master, or a URL such as s3://bucket/runs"
    try:
        if parse_object_url(policy.collect_to).scheme == "memory":
            message = "what is in memory:// ends with its process, and so would all epochs"
            faults.error("E127", message, mend, at)
    except ValueError:
        message = f"'{policy.collect_to}' is neither 'master' nor a URL of an object store"
        mend = f"{mend}; a directory that all nodes see is 'dir', without 'node_dir'"
        faults.error("E127", message, mend, at)
    if not policy.node_dir:
        message = "nodes bring there what is in 'node_dir', and there is none"
        faults.error("E127", message, "give a 'node_dir'", at)
    if policy.upload is not None:
        message = "'collect' brings each epoch to an object store, so 'upload' has nothing to do"
        faults.error("E127", message, "leave 'upload' out, or write collect: master", at)
    if policy.every_records:
        message = "checkpoints within an epoch are not collected into an object store"
        mend = "write collect: master, or save after epochs (every: 1ep)"
        faults.error("E127", message, mend, at)


def _not_absolute(node_dir: str, place: Place, faults: Faults) -> None:
    message = f"'{node_dir}' is no absolute path, and each node is in another directory"
    faults.error("E127", message, "write for example /var/tmp", place)


def _place(context: Context, at: tuple[str, ...]) -> Place:
    return Place(path_text(at), context.source.at(at))
