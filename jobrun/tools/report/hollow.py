"""The tasks of a job from its recorded plan, where the job itself cannot be had. To be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup


def hollow_job(plan: Mapping[str, Any]) -> Job:
    """A job whose tasks have names, nodes and needs, but no steps.

    Args:
        plan: The content of ``spec/plan.json``.

    Raises:
        KeyError, TypeError, ValueError: It is of another form.
    """
    groups = {name: _group(str(name), tasks) for name, tasks in plan["groups"].items()}
    return Job(
        name=str(plan["job"]),
        cluster=Cluster(tuple(Node(str(node)) for node in plan["nodes"])),
        init=groups["init"],
        epoch=groups["epoch"],
        download=groups["download"],
        exit=groups["exit"],
        seed=int(plan["seed"]),
    )


def _group(name: str, tasks: list[Mapping[str, Any]]) -> TaskGroup:
    return TaskGroup(name, tuple(_task(task) for task in tasks))


def _task(task: Mapping[str, Any]) -> Task:
    return Task(
        str(task["task"]),
        str(task["node"]),
        (),
        needs=tuple(map(str, task["needs"])),
        instances=int(task["instances"]),
        rebuild=bool(task["rebuild"]),
    )
