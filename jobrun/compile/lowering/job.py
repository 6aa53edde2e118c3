"""Lower a loaded spec to the draft of a job, with ``state`` and ``notify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.node_names import NodeNames
from jobrun.compile.job_draft.tasks_and_groups import Groups, JobDraft, walk_readers
from jobrun.compile.lowering.checkpoint import lower_checkpoint, lower_saved_nodes
from jobrun.compile.lowering.conditions import ConditionLowering, lower_deadline
from jobrun.compile.lowering.context import Context, NetDef
from jobrun.compile.lowering.groups import GroupLowering
from jobrun.compile.lowering.queues import build_queue_table
from jobrun.compile.lowering.readers import build_reader_table
from jobrun.core.codes import Code
from jobrun.core.errors import Origin
from jobrun.core.notify_target import NotifyTarget, check_target
from jobrun.graph.readers import readers_in
from jobrun.graph.types import Cluster, Job, Node, StateLayout, TaskGroup
from jobrun.spec.load import LoadedSpec
from jobrun.spec.models.job import JobSpec, NodeSpec
from jobrun.spec.yaml.nodes import Path, SourceMap, path_text

_NOTIFY_MEND = (
    "write for example post: https://ntfy.sh/my-topic, or run: [mail, -s, jobrun, me@example.org]"
)

DEFAULT_NODE = "local"

_Found = Iterator[tuple[Code, Path, str, str]]


def lower_spec(loaded: LoadedSpec, faults: Faults) -> JobDraft:
    """Lower a loaded spec to a ``JobDraft``; leave out each part that has a fault."""
    spec, source = loaded.spec, loaded.source
    nodes = build_cluster(spec, source)
    context = Context(
        source,
        loaded.params,
        faults,
        _lower_nets(spec, source, faults),
        build_queue_table(spec, source, faults),
        NodeNames(nodes),
    )
    lowering = GroupLowering(context, build_reader_table(spec, context))
    groups = lowering.drafts(spec)
    check_node_settings(spec, source, faults)
    _check_readers_used(spec, groups, source, faults)
    conditions = ConditionLowering(context, lowering.steps.read, groups)
    job = Job(
        name=spec.name,
        cluster=nodes,
        init=TaskGroup("init"),
        epoch=TaskGroup("epoch"),
        seed=spec.seed,
        description=spec.description,
        stop=conditions.stop(spec),
        fail_if=conditions.conditions("fail_if", spec.fail_if),
        metrics=conditions.metrics(spec),
        expect=conditions.conditions("expect", spec.expect),
        checkpoint=lower_checkpoint(spec, context),
        blas_threads=spec.blas_threads,
        params=tuple(loaded.shown_params.items()),
        folder=loaded.folder,
        queues=tuple(context.queues.queues.values()),
        deadline=lower_deadline(spec, context),
        layouts=_layouts(spec, source),
        notify=lower_notify(spec, context),
        listeners=spec.listeners,
        adapt=spec.adapt,
        adapt_at=tuple(source.items(("adapt",), len(spec.adapt))) if spec.adapt else (),
    )
    return JobDraft(
        job,
        groups,
        loaded.params,
        lower_saved_nodes(spec, context),
        saved_nodes_at=source.at(("checkpoint", "nodes")),
        every_at=source.key(("checkpoint", "every")),
        stop_is_whole=len(job.stop) == len(spec.stop),
    )


def _check_readers_used(spec: JobSpec, groups: Groups, source: SourceMap, faults: Faults) -> None:
    used = {
        inner_reader.name
        for reader, _ in walk_readers(groups)
        for inner_reader in readers_in(reader)
    }
    for name in spec.readers:
        if name not in used:
            spec_position = SpecPosition(f"readers.{name}", source.key(("readers", name)))
            mend = f"remove it, or write read: {name} in a task"
            faults.warn("W137", f"reader '{name}' is never read", mend, spec_position)


def _layouts(spec: JobSpec, source: SourceMap) -> tuple[StateLayout, ...]:
    return tuple(
        StateLayout(
            name,
            "replicated" if declared == "replicated" else "rows",
            path_text(("state", name)),
            source.key(("state", name)),
        )
        for name, declared in spec.state.items()
    )


def lower_notify(spec: JobSpec, context: Context) -> tuple[NotifyTarget, ...]:
    """Lower ``notify`` of a job to targets; add a fault for one that is not supported."""
    is_one = not isinstance(spec.notify, tuple)
    written = spec.notify if isinstance(spec.notify, tuple) else (spec.notify,)
    targets = []
    for index, declared in enumerate(written):
        target = NotifyTarget(declared.on, declared.post or "", declared.run or ())
        if why := check_target(target):
            at: tuple[str | int, ...] = ("notify",) if is_one else ("notify", index)
            key = ("post",) if declared.post is not None else ()
            context.faults.error("E223", why, _NOTIFY_MEND, context.at(*at, *key))
            continue
        targets.append(target)
    return tuple(targets)


def _lower_nets(spec: JobSpec, source: SourceMap, faults: Faults) -> Mapping[str, NetDef]:
    if not spec.nets:
        return {}
    from jobrun.compile.lowering.nets import build_net_table  # noqa: PLC0415 - of few specs

    return build_net_table(spec, source, faults)


def build_cluster(spec: JobSpec, source: SourceMap) -> Cluster:
    """Build the cluster of the lowered job from a spec's nodes: ``local`` if it has none."""
    if not spec.nodes:
        return Cluster((Node(DEFAULT_NODE, DEFAULT_NODE),))
    return Cluster(
        tuple(
            node
            for family, declared in spec.nodes.items()
            for node in _build_family(family, declared, source.key(("nodes", family)))
        )
    )


def _build_family(family: str, declared: NodeSpec, origin: Origin) -> list[Node]:
    node = Node(
        family,
        family,
        0,
        1,
        tuple(declared.props.items()),
        tuple(declared.resources.items()),
        declared.host or "",
        origin,
    )
    if declared.count is None:
        return [node]
    count = declared.count
    return [replace(node, name=f"{family}_{i}", index=i, count=count) for i in range(count)]


def check_node_settings(spec: JobSpec, source: SourceMap, faults: Faults) -> None:
    """Check settings below ``nodes`` as a job is lowered; warn of settings without effect."""
    for name, node in spec.nodes.items():
        at: Path = ("nodes", name)
        bad_settings = [*_bad_amounts(node, at), *_conflicts(node, at)]
        for code, path, message, mend in bad_settings:
            faults.error(code, message, mend, SpecPosition(path_text(path), source.at(path)))
        for key in ("host", "resources"):
            if not bad_settings and getattr(node, key):
                spec_position = SpecPosition(path_text((*at, key)), source.key((*at, key)))
                message = f"'{key}' of node '{name}' has an effect only in the session 'ray'"
                faults.warn("W135", message, "run with --session ray, or remove it", spec_position)


def _bad_amounts(node: NodeSpec, at: Path) -> _Found:
    for name, amount in node.resources.items():
        if amount < 0:
            message = f"invalid amount {amount:g} of resource '{name}'"
            yield "E123", (*at, "resources", name), message, "use 0 or more"


def _conflicts(node: NodeSpec, at: Path) -> _Found:
    """Yield faults of a node being lowered, whose ``props`` contradict its other settings."""
    meant = {"host": node.host, "count": node.count, "resources": node.resources}
    for key, value in meant.items():
        if value and key in node.props and node.props[key] != value:
            message = f"the property '{key}' is {node.props[key]!r}, and '{key}' is {value!r}"
            yield "E124", (*at, "props", key), message, "remove it from 'props'"
    for key, amount in node.resources.items():
        if key in node.props and node.props[key] != amount:
            message = f"the property '{key}' is {node.props[key]!r}, and the resource is {amount:g}"
            yield "E124", (*at, "props", key), message, "remove one of the two"
