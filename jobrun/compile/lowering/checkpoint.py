"""Lower ``checkpoint`` of a spec: what is saved, kept, collected from nodes, and uploaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from msgspec.structs import replace

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.lowering.context import Context
from jobrun.core.errors import Origin
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.object_url import SCHEMES, is_object_url, parse_object_url, scheme_of
from jobrun.graph.checkpoint_policy import CheckpointPolicy, Rules, UploadPolicy
from jobrun.spec.models.job import CheckpointSpec, JobSpec
from jobrun.spec.yaml.nodes import path_text

if TYPE_CHECKING:
    from jobrun.spec.models.retention import KeepSpec, UploadSpec

MASTER = "master"
_DIR = ("checkpoint", "node_dir")
_COLLECT = ("checkpoint", "collect")


def lower_saved_nodes(spec: JobSpec, context: Context) -> tuple[str, ...] | None:
    """Lower ``checkpoint.nodes`` to the nodes to save; None for all nodes that hold state."""
    written = spec.checkpoint
    if not isinstance(written, CheckpointSpec) or written.nodes is None:
        return None
    nodes: list[str] = []
    for index, name in enumerate(written.nodes):
        spec_position = context.at("checkpoint", "nodes", index)
        nodes += context.nodes.resolve(name, spec_position, context.faults)
    # After an unknown node, continue as if the key were absent: one fault is enough.
    return tuple(dict.fromkeys(nodes)) if len(nodes) >= len(written.nodes) else None


def lower_checkpoint(spec: JobSpec, context: Context) -> CheckpointPolicy:
    """Lower ``checkpoint`` to a policy, except ``checkpoint.nodes``."""
    written = spec.checkpoint
    if not isinstance(written, CheckpointSpec):
        return CheckpointPolicy(enabled=False)
    every = written.every
    unit, amount = (every.unit, every.amount) if every is not None else ("auto", 1)
    policy = CheckpointPolicy(
        directory=written.dir or "",
        # Checkpoints within an epoch are in addition to those at its end.
        every_epochs={"epochs": int(amount), "records": 1}.get(unit, 0),
        every_s=amount if unit == "seconds" else 0.0,
        every_records=int(amount) if unit == "records" else 0,
        keep_last=(written.keep and written.keep.last) or 0,
        keep_every=_keep_every(written.keep, context),
        keep_best=_keep_best(written.keep, spec.metrics, context),
        on_error=written.on_error,
        upload=lower_upload(written.upload, context),
        compression=_compression(written.compression),
        compression_at=context.source.at(("checkpoint", "compression")),
        upload_at=context.source.at(("checkpoint", "upload", "to")),
        asynchronous=written.asynchronous,
    )
    return lower_node_dir(policy, written, context)


def _compression(written: str | Mapping[str, str] | None) -> Rules:
    if written is None:
        return ()
    return (("*", written),) if isinstance(written, str) else tuple(written.items())


def _keep_every(keep: KeepSpec | None, context: Context) -> int:
    if keep is None or keep.every is None:
        return 0
    if keep.every.unit != "epochs":
        spec_position = context.at("checkpoint", "keep", "every")
        message = "'keep.every' must be a number of epochs"
        context.faults.error("E136", message, "write for example 10ep", spec_position)
        return 0
    return int(keep.every.amount)


def _keep_best(
    keep: KeepSpec | None, metrics: Collection[str], context: Context
) -> tuple[str, Literal["min", "max"], int]:
    if keep is None or keep.best is None:
        return CheckpointPolicy().keep_best
    spec_position = context.at("checkpoint", "keep", "best", "metric")
    check_metric(keep.best.metric, metrics, spec_position, context.faults)
    return (keep.best.metric, keep.best.mode, keep.best.n)


def check_metric(
    name: str, metrics: Collection[str], spec_position: SpecPosition, faults: Faults
) -> None:
    """Check that the metric of ``checkpoint.keep``, or of ``patience``, is declared."""
    if name not in metrics:
        mend = did_you_mean(name, metrics) if metrics else f"write metrics: {{{name}: …}}"
        faults.error("E138", f"unknown metric '{name}'", mend, spec_position)


_FILE = "file://"
_MEND = "write a directory such as /backup/checkpoints, or a URL such as s3://bucket/runs"


def lower_upload(written: UploadSpec | None, context: Context) -> UploadPolicy | None:
    """Lower ``checkpoint.upload``; add a fault for a destination that is not supported."""
    if written is None:
        return None
    at = ("checkpoint", "upload", "to")
    policy = UploadPolicy(written.to, written.when, written.required)
    return resolve_upload(
        policy, SpecPosition(path_text(at), context.source.at(at)), context.faults
    )


def resolve_upload(
    policy: UploadPolicy, spec_position: SpecPosition, faults: Faults
) -> UploadPolicy | None:
    """Lower ``checkpoint.upload`` to a normalised local path, or the URL of an object store.

    A destination that is not supported is a fault.
    """
    try:
        if is_object_url(policy.to):
            return replace(policy, to=str(parse_object_url(policy.to)))
        return replace(policy, to=local_directory(policy.to))
    except ValueError as error:
        faults.error("E127", str(error), _MEND, spec_position)
        return None


def local_directory(text: str) -> str:
    """Lower the path or file:// URL in ``checkpoint.upload`` of a spec to a local directory.

    Raises:
        ValueError: It is not a directory of this machine; the message says why.
    """
    if not text:
        raise ValueError("'upload.to' is empty")
    scheme = scheme_of(text)
    if not scheme:
        return text
    if scheme != "file":
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"'{scheme}://' is not supported; use a path, file://, {known}")
    path = text[len(_FILE) :].removeprefix("localhost")
    if not path.startswith("/"):
        raise ValueError(f"'{text}' names another machine, not a directory of this one")
    return unquote(path)


def lower_node_dir(
    policy: CheckpointPolicy, written: CheckpointSpec, context: Context
) -> CheckpointPolicy:
    """Lower ``checkpoint.node_dir`` and ``collect``; add a fault where state could be lost.

    Without ``collect`` a node's file would be lost with the node.
    """
    faults = context.faults
    if written.node_dir is not None and written.collect is None:
        message = (
            "a file that is only in 'node_dir' is lost with its node, so no epoch could "
            "be committed"
        )
        mend = "add collect: master; or remove it if all nodes have access to 'dir'"
        faults.error("E127", message, mend, context.at(*_DIR))
    elif written.node_dir is None and written.collect is not None:
        message = "'collect' has no effect without 'node_dir'"
        mend = "write node_dir: /a/directory/of/each/node as well, or remove it"
        faults.error("E127", message, mend, context.at(*_COLLECT))
    elif written.node_dir == "":
        # An empty text would count as an absent key.
        _note_relative(written.node_dir, context.at(*_DIR), faults)
    if written.node_dir is None or written.collect is None:
        return policy
    url = _normalise_url(written.collect)
    policy = replace(policy, node_dir=written.node_dir, collect_to=url)
    check_collection(policy, context.at(*_DIR), context.at(*_COLLECT), faults)
    return add_manifest_upload(policy, context.source.at(_COLLECT)) if url else policy


def check_collection(
    policy: CheckpointPolicy, spec_position: SpecPosition, at: SpecPosition, faults: Faults
) -> None:
    """Check that the spec's ``checkpoint.collect`` fits ``node_dir`` and ``upload``.

    Args:
        policy: The policy, as written.
        spec_position: The position of ``node_dir``.
        at: The position of ``collect``.
        faults: Collects what is wrong.
    """
    if policy.node_dir and not policy.node_dir.startswith("/"):
        _note_relative(policy.node_dir, spec_position, faults)
    if policy.collect_to:
        _check_store(policy, at, faults)
    elif policy.node_dir and policy.upload is not None and not is_object_url(policy.upload.to):
        message = (
            "nodes upload to a directory from the checkpoint directory, to which they "
            "have no access with 'node_dir'"
        )
        mend = "upload to an object store (s3://bucket/runs), or set 'dir' to that directory"
        faults.error("E127", message, mend, spec_position)


def add_manifest_upload(policy: CheckpointPolicy, at: Origin) -> CheckpointPolicy:
    """Set in a checkpoint policy that manifests, too, are uploaded to the ``collect`` store."""
    upload = UploadPolicy(policy.collect_to, "committed", required=True)
    return replace(policy, upload=upload, upload_at=at)


def _normalise_url(collect: str) -> str:
    """Lower ``checkpoint.collect`` to a normalised URL of an object store, or "" for master."""
    try:
        return "" if collect == MASTER else str(parse_object_url(collect))
    except ValueError:
        return collect


def _check_store(policy: CheckpointPolicy, at: SpecPosition, faults: Faults) -> None:
    mend = "write collect: master, or a URL such as s3://bucket/runs"
    try:
        if parse_object_url(policy.collect_to).scheme == "memory":
            message = "memory:// is lost with its process, and so would be all epochs"
            faults.error("E127", message, mend, at)
    except ValueError:
        message = f"'{policy.collect_to}' is neither 'master' nor a URL of an object store"
        mend = f"{mend}; for a directory that all nodes can access use 'dir', without 'node_dir'"
        faults.error("E127", message, mend, at)
    if not policy.node_dir:
        message = "'collect' takes the files in 'node_dir', which is not set"
        faults.error("E127", message, "set 'node_dir'", at)
    if policy.upload is not None:
        message = "'collect' already sends each epoch to an object store, so 'upload' has no effect"
        faults.error("E127", message, "remove 'upload', or write collect: master", at)
    if policy.every_records:
        message = "saves within an epoch are not collected into an object store"
        mend = "write collect: master, or save after epochs (every: 1ep)"
        faults.error("E127", message, mend, at)


def _note_relative(node_dir: str, spec_position: SpecPosition, faults: Faults) -> None:
    message = f"'{node_dir}' is not an absolute path, and every node has another working directory"
    faults.error("E127", message, "write for example /var/tmp", spec_position)
