"""Load some blobs of saved epochs into a session, without a run (``api.load_blobs``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jobrun.checkpoint.checkpoint_times import build_times
from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.task_groups import LOAD_TASK, NAMES_OUTPUT, partial_group, stored_files
from jobrun.core.errors import CheckpointError
from jobrun.core.events import Listener, ignore
from jobrun.core.text.object_url import is_object_url
from jobrun.graph.types import OutputRef
from jobrun.runner.checkpoint_stores import open_store
from jobrun.runner.identity.recorded_job import compile_authored, load_recorded
from jobrun.runner.rundir.run_directories import Run
from jobrun.session.base import Session

Source = Run | CheckpointStore | str | Path


def load_blobs_from_checkpoints(
    session: Session,
    source: Source,
    epoch: int,
    names: Iterable[str],
    listen: Listener = ignore,
) -> Mapping[str, tuple[str, ...]]:
    """Load named blobs of saved epochs into a session as a partial load: all, or none.

    Every file in question is read and verified on its node before any blob changes. What a
    node's global workspace holds besides stays as it is.

    Args:
        session: Open, with a node for each file that is read; no group runs.
        source: A run, a store, the directory that holds the ``epoch-…`` directories, or the
            URL of a run, or of such a place, in an object store.
        epoch: Which one.
        names: ``w``: from every node that has saved such a blob; ``trainer.w``: from that one.
        listen: Receives how long it took.

    Returns:
        For each name, in the order given, the nodes into which it was loaded; none of them if
        no file holds it.

    Raises:
        CheckpointError: There is no such epoch, a file of it is missing or damaged, or the
            session lacks a node; nothing has changed.
    """
    store = _store(source, epoch)
    manifest = store.manifest(epoch)
    nodes = tuple(file.node for file in manifest.files)
    meant = {name: parse_address(name, nodes) for name in names}
    wanted = {
        node: tuple(sorted({blob for blob, on in meant.values() if node in on})) for node in nodes
    }
    wanted = {node: blobs for node, blobs in wanted.items() if blobs}
    for node in wanted:
        _require_node(session, node, nodes)
    group = partial_group(manifest, store.path(epoch), wanted)
    outputs = session.run(group, epoch, {})
    listen(build_times("partial load", epoch, stored_files(outputs)))
    loaded = {node: outputs[OutputRef(LOAD_TASK, node, NAMES_OUTPUT)] for node in wanted}
    return {
        name: tuple(node for node in on if blob in loaded[node])
        for name, (blob, on) in meant.items()
    }


def parse_address(name: str, nodes: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Parse a blob to load, ``node.w`` or ``w`` (of all nodes); return its name and nodes."""
    node, dot, blob = name.partition(".")
    if dot and node in nodes:
        return blob, (node,)
    return name, tuple(nodes)


def _store(source: Source, epoch: int) -> CheckpointStore:
    if isinstance(source, str) and is_object_url(source):
        return _remote_store(source, epoch)
    if isinstance(source, str | Path):
        return DirectoryStore(str(source))
    if isinstance(source, Run):
        inside = DirectoryStore(str(source.path / "checkpoints"))
        if inside.epochs():
            return inside
        # Only the compiled job knows whether its checkpoints are elsewhere.
        present = load_recorded(source)
        return open_store(source, compile_authored(present), Path(present.folder))
    return source


def _remote_store(text: str, epoch: int) -> CheckpointStore:
    # Lazy: only checkpoints in an object store need these.
    from jobrun.checkpoint.stores.object_store import ObjectStore  # noqa: PLC0415
    from jobrun.runner.rundir.object_store_run import epochs_below, parse_run_url  # noqa: PLC0415

    url = parse_run_url(text)
    return epochs_below(url).get(epoch) or ObjectStore(url)


def _require_node(session: Session, node: str, nodes: tuple[str, ...]) -> None:
    try:
        session.names(node)
    except KeyError:
        raise CheckpointError.of(
            "E307",
            f"the session has no node '{node}', and the checkpoint does",
            f"open the session with it, or name the nodes to load from ({', '.join(nodes)}), "
            f"such as '{nodes[0]}.w'",
        ) from None
