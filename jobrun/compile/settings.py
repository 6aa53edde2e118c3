"""What a spec says beside the steps: limits, retries, hosts. Checks it; carries out nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jobrun.compile.faults import Faults, Place
from jobrun.graph.types import Retry, Task
from jobrun.spec.models import JobSpec, NodeSpec, TaskSpec
from jobrun.spec.source import Path, SourceMap, path_text

_Found = Iterator[tuple[str, Path, str, str]]


def check_task_settings(
    task: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
) -> None:
    """Note a time limit of nothing, and a retry that could never happen."""
    if task.timeout is not None and task.timeout <= 0:
        faults.error("E123", "a time limit must be longer than 0", "give for example 30m, or leave "
                     "it out", Place(path, source.at((*at, "timeout"))))  # fmt: skip
    if task.retry is not None and task.on_error == "warn":
        faults.error(
            "E124", "'retry' has no effect beside 'on_error: warn', which never fails the group",
            "leave out one of the two", Place(path, source.key((*at, "retry"))),
        )  # fmt: skip


def retry_of(task: TaskSpec) -> Retry | None:
    """The retry of a task; one of no times is none."""
    if task.retry is None or task.retry.max == 0:
        return None
    return Retry(task.retry.max, task.retry.backoff)


def vet_settings(task: Task, faults: Faults) -> None:
    """As ``check_task_settings``, of a task built by hand."""
    place = Place(task.path, task.origin)
    if not 0 <= task.timeout_s < math.inf:
        message = f"a time limit of {task.timeout_s:g} s cannot be meant"
        faults.error("E123", message, "give seconds, or 0 for none", place)
    if task.retry is not None and not (
        task.retry.most >= 1 and 0 <= task.retry.backoff_s < math.inf
    ):
        message = f"{task.retry.most} retries after {task.retry.backoff_s:g} s cannot be meant"
        faults.error("E123", message, "give Retry(1), or None for no retry", place)
    if task.retry is not None and task.on_error == "warn":
        faults.error(
            "E124", "'retry' has no effect beside 'on_error: warn', which never fails the group",
            "leave out one of the two", place,
        )  # fmt: skip


def check_node_settings(spec: JobSpec, source: SourceMap, faults: Faults) -> None:
    """Note what cannot be meant, and warn of what only a cluster has a use for."""
    for name, node in spec.nodes.items():
        at: Path = ("nodes", name)
        found = [*_bad_amounts(node, at), *_conflicts(node, at)]
        for code, path, message, mend in found:
            faults.error(code, message, mend, Place(path_text(path), source.at(path)))
        for key in ("host", "resources"):
            if not found and getattr(node, key):
                place = Place(path_text((*at, key)), source.key((*at, key)))
                faults.warn(
                    "W135", f"'{key}' of node '{name}' counts in the session 'ray' only",
                    "run it with --session ray, or leave it out", place,
                )  # fmt: skip


def _bad_amounts(node: NodeSpec, at: Path) -> _Found:
    for name, amount in node.resources.items():
        if amount < 0:
            message = f"a node cannot ask for {amount:g} of '{name}'"
            yield "E123", (*at, "resources", name), message, "give 0 or more"


def _conflicts(node: NodeSpec, at: Path) -> _Found:
    """Free properties that say something else than the key of their name."""
    meant = {"host": node.host, "count": node.count, "resources": node.resources}
    for key, value in meant.items():
        if value and key in node.props and node.props[key] != value:
            message = f"the property '{key}' is {node.props[key]!r}, and '{key}' is {value!r}"
            yield "E124", (*at, "props", key), message, f"leave it out of 'props': '{key}' is known"
    for key, amount in node.resources.items():
        if key in node.props and node.props[key] != amount:
            message = f"the property '{key}' is {node.props[key]!r}, and the resource is {amount:g}"
            yield "E124", (*at, "props", key), message, "say it once"
