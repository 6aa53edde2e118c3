"""Where nodes write their files first, if not where the epochs are. Only what could lose none."""

from __future__ import annotations

from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.core.objecturl import is_object_url
from jobrun.graph.conditions import CheckpointPolicy
from jobrun.spec.models import CheckpointSpec
from jobrun.spec.source import path_text

_DIR = ("checkpoint", "node_dir")
_COLLECT = ("checkpoint", "collect")


def collected_from(written: CheckpointSpec, context: Context) -> str:
    """The directory of ``node_dir``; empty for none, or where it and ``collect`` do not agree.

    Without ``collect`` a node's file would be lost with the node: that is a fault.
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
    return written.node_dir if written.node_dir is not None and written.collect else ""


def check_node_dir(policy: CheckpointPolicy, place: Place, faults: Faults) -> None:
    """Note why files cannot be collected from there; of no ``node_dir`` there is nothing to say."""
    if not policy.node_dir:
        return
    if not policy.node_dir.startswith("/"):
        _not_absolute(policy.node_dir, place, faults)
    if policy.upload is not None and not is_object_url(policy.upload.to):
        message = "nodes copy to a directory what they see, and with 'node_dir' they see no epochs"
        mend = "upload to an object store (s3://bucket/runs), or put 'dir' on the disk meant"
        faults.error("E127", message, mend, place)


def _not_absolute(node_dir: str, place: Place, faults: Faults) -> None:
    message = f"'{node_dir}' is no absolute path, and each node is in another directory"
    faults.error("E127", message, "write for example /var/tmp", place)


def node_dir_place(context: Context) -> Place:
    """Where ``node_dir`` is written."""
    return _place(context, _DIR)


def _place(context: Context, at: tuple[str, ...]) -> Place:
    return Place(path_text(at), context.source.at(at))
