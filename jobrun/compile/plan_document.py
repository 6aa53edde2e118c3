"""Build the JSON document of ``jobrun plan --json`` from a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Probe, StopCondition, StopWhen
from jobrun.graph.expression_text import render_expr
from jobrun.graph.job_text import (
    QueueLink,
    find_queue_links,
    read_name,
    reader_notes,
    render_op,
    render_step,
    render_stop,
    used_readers,
)
from jobrun.graph.query import (
    blocks,
    find_objects,
    remote_by_path,
    reports_by_path,
    setup_by_name,
    tasks_by_name,
    walk,
)
from jobrun.graph.readers import Field, Reader
from jobrun.graph.steps import If, Net, Step
from jobrun.graph.types import Job, RemoteNet, Report, SetupNets, Task, TaskGroup
from jobrun.ops.abstract_values import Known
from jobrun.ops.access_finder import ACCESS_FINDER

SCHEMA = "jobrun.plan/1"

# (node, blob) → what is known of it at an epoch boundary.
Sizes = Mapping[tuple[str, str], Known]
# (path of a task, blob) → what is known of the values that the task binds it to.
TaskBlobs = Mapping[tuple[str, str], Known]
# Path of a task → its blobs.
_Blobs = dict[str, list[dict[str, Any]]]


def plan_json(
    job: Job, sizes: Sizes | None = None, task_blobs: TaskBlobs | None = None
) -> dict[str, Any]:
    """Build the JSON document of a job's plan, in which a task on many nodes is listed once.

    Args:
        job: The checked job.
        sizes: What is known of state and constants, if it was inferred.
        task_blobs: What is known of the blobs that tasks make.
    """
    blobs: _Blobs = {}
    for (path, name), known in (task_blobs or {}).items():
        blobs.setdefault(path, []).append(_blob(name, known))
    return {
        "schema": SCHEMA,
        "name": job.name,
        "description": job.description,
        "seed": job.seed,
        "blas_threads": job.blas_threads,
        "adapt": list(job.adapt),
        "params": dict(job.params),
        "exact": job.exactness.exact,
        "not_exact_because": [
            {"path": path, "reason": reason} for path, reason in job.exactness.reasons
        ],
        "nodes": [
            {
                "name": node.name,
                "family": node.family,
                "index": node.index,
                "count": node.count,
                "props": dict(node.props),
                "resources": dict(node.resources),
                "host": node.host or None,
            }
            for node in job.cluster
        ],
        "readers": readers_json(job),
        "groups": [_group(group, blobs) for group in job.groups],
        "state": _owned(job.state, sizes or {}),
        "constants": _owned(job.constants, sizes or {}),
        "objects": [{"node": node, "blobs": list(names)} for node, names in find_objects(job)],
        "layouts": [
            {"blob": layout.name, "layout": layout.layout, "where": str(layout.origin)}
            for layout in job.layouts
        ],
        "checkpoint": _checkpoint(job.checkpoint),
        "stop": [_stop(condition) for condition in job.stop],
        "deadline": None if job.deadline is None else to_builtins(job.deadline),
        "metrics": [{"name": name, **_probe(probe)} for name, probe in job.metrics],
        "fail_if": [_probe(probe) for probe in job.fail_if],
        "expect": [_probe(probe) for probe in job.expect],
    }


def _group(group: TaskGroup, blobs: _Blobs) -> dict[str, Any]:
    return {
        "name": group.name,
        "workspace": group.workspace,
        "setup": [{"nodes": list(nodes), **_setup(setup)} for setup, nodes in setup_by_name(group)],
        "reports": [
            {"nodes": list(nodes), **_report(report)} for report, nodes in reports_by_path(group)
        ],
        "tasks": [_task(task, nodes, blobs) for task, nodes in tasks_by_name(group)],
        "queues": [_queue(link) for link in find_queue_links(group)],
        "remote": [_remote(net, nodes) for net, nodes in remote_by_path(group)],
    }


def _queue(link: QueueLink) -> dict[str, Any]:
    queue = link.queue
    return {
        "name": queue.name,
        "path": queue.path,
        "where": str(queue.origin),
        "capacity": queue.capacity,
        "ordered": queue.ordered,
        "shared": queue.shared,
        "batch": queue.batch or None,
        "names": list(link.names),
        "writers": list(link.writers),
        "readers": list(link.readers),
    }


def _remote(net: RemoteNet, nodes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "net": net.name,
        "path": net.path,
        "where": str(net.origin),
        "nodes": list(nodes),
        "props": dict(net.props),
        "setup": [_setup(setup) for setup in net.setup],
        "steps": _steps(net.steps),
    }


def _task(task: Task, nodes: tuple[str, ...], blobs: _Blobs) -> dict[str, Any]:
    touched = _touched(task)
    return {
        "name": task.name,
        "path": task.path,
        "where": str(task.origin),
        "nodes": list(nodes),
        "needs": list(task.needs),
        "instances": task.instances,
        "rebuild": task.rebuild,
        "hogwild": task.hogwild,
        "timeout_s": task.timeout_s or None,
        "retry": task.retry and {"max": task.retry.most, "backoff_s": task.retry.backoff_s},
        "on_error": task.on_error,
        "read": read_name(task),
        "write": {write.queue.name: list(write.names) for write in task.write},
        "setup": [_setup(setup) for setup in task.setup],
        "instance_setup": [_setup(setup) for setup in task.instance_setup],
        "steps": _steps(task.steps),
        "reports": [_report(report) for report in task.reports],
        "outputs": [
            {"name": output.name, "value": render_expr(output.value)} for output in task.outputs
        ],
        "workspaces": {name: scope.value for name, scope in task.scopes},
        **touched,
        "blobs": blobs.get(task.path, []),
    }


def _touched(task: Task) -> dict[str, list[str]]:
    """Return the names that a task reads and writes, as the plan's JSON document lists them."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    setups = (*task.setup, *task.instance_setup)
    parts = (
        *(setup.init for setup in setups),
        task.steps,
        *(report.steps for report in task.reports),
        *(setup.exit for setup in reversed(setups)),
    )
    for steps in parts:
        for step in walk(steps):
            access = ACCESS_FINDER.of_step(step)
            reads |= dict.fromkeys((*access.reads, *access.atomic))
            writes |= dict.fromkeys((*access.binds, *access.changes, *access.atomic))
    return {"reads": list(reads), "writes": list(writes)}


def _steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = []
    for step in steps:
        if isinstance(step, Net):
            documents += [
                {"path": op.path, "where": str(op.origin), "text": render_op(op)} for op in step.ops
            ]
            continue
        document: dict[str, Any] = {
            "path": step.path,
            "where": str(step.origin),
            "text": render_step(step),
        }
        if isinstance(step, If):
            document["conditions"] = [render_expr(condition) for condition, _ in step.branches]
        inner = [_steps(block) for block in blocks(step)]
        documents.append(document | ({"blocks": inner} if inner else {}))
    return documents


def _setup(setup: SetupNets) -> dict[str, Any]:
    return {"path": setup.name, "init": _steps(setup.init), "exit": _steps(setup.exit)}


def _report(report: Report) -> dict[str, Any]:
    return {"path": report.path, "every_s": report.interval_s, "steps": _steps(report.steps)}


def _owned(owned: tuple[tuple[str, tuple[str, ...]], ...], sizes: Sizes) -> list[dict[str, Any]]:
    return [
        {"node": node, "blobs": [_blob(name, sizes.get((node, name), Known())) for name in names]}
        for node, names in owned
    ]


def _blob(name: str, known: Known) -> dict[str, Any]:
    shape = None if known.shape is None else list(known.shape)
    kind = known.dtype or known.sequence or None
    return {"name": name, "dtype": kind, "shape": shape, "size_bytes": known.size_bytes}


def _checkpoint(policy: CheckpointPolicy) -> dict[str, Any]:
    if not policy.enabled:
        return {"enabled": False}
    metric, mode, count = policy.keep_best
    return {
        "enabled": True,
        "directory": policy.directory,
        "every_epochs": policy.every_epochs,
        "every_s": policy.every_s,
        "every": "auto" if policy.is_automatic else None,
        "every_records": policy.every_records,
        "keep_last": policy.keep_last,
        "keep_every": policy.keep_every,
        "keep_best": {"metric": metric, "mode": mode, "n": count} if metric else None,
        "nodes": list(policy.nodes),
        "on_error": policy.on_error,
        "compression": dict(policy.compression),
        "upload": None if policy.upload is None else to_builtins(policy.upload),
        **({"node_dir": policy.node_dir} if policy.node_dir else {}),
        **({"collect": policy.collect_to} if policy.collect_to else {}),
    }


def _stop(condition: StopCondition) -> dict[str, Any]:
    if isinstance(condition, StopWhen):
        return {"path": condition.path, "text": f"when {condition.probe.text}"}
    return {"path": condition.path, "text": render_stop(condition)}


def _probe(probe: Probe) -> dict[str, Any]:
    parts = [render_expr(part) for part in probe.parts]
    return {"path": probe.path, "text": probe.text, "reduce": probe.reduce or None, "parts": parts}


def readers_json(job: Job) -> list[dict[str, Any]]:
    """Build the list of readers in the plan's JSON document: all that a task reads."""
    return [_reader(reader) for reader in used_readers(job)]


def _reader(reader: Reader) -> dict[str, Any]:
    return {
        "name": reader.name,
        "path": reader.path,
        "where": str(reader.origin),
        "fields": {field.name: _member(field) for field in reader.fields},
        "batch": reader.batch or None,
        "drop_last": reader.drop_last,
        "shuffle": reader.shuffle,
        "restart": reader.restart,
        "limit": reader.limit,
        "time_limit_s": reader.time_limit_s or None,
        "shard": reader.shard,
        "position": reader.position,
        "text": "; ".join(reader_notes(reader)),
    }


def _member(field: Field) -> str | dict[str, str]:
    if field.lengths is None:
        return field.member
    return {"values": field.member, "lengths": field.lengths}
