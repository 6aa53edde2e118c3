"""A run's ``spec/`` folder: what its author wrote, what it came to, and the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jobrun.compile.job import compile_job
from jobrun.core.errors import CheckpointError
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.durable import disk_faults, write_whole
from jobrun.runner.rundir import Run
from jobrun.spec.dump import dump_resolved
from jobrun.spec.load import LoadedSpec, load_spec

RESOLVED_NAME = "resolved.yaml"
PLAN_NAME = "plan.json"


def write_spec(run: Path, loaded: LoadedSpec, job: Job) -> None:
    """Write what is to be run; what was there before stays beside it, under a number.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    folder = run / "spec"
    with disk_faults(f"write {folder}"):
        _keep_previous(folder)
        for name, text in _authored(loaded.files).items():
            write_whole(folder / name, text.encode())
        write_whole(folder / PLAN_NAME, plan_text(job).encode())
        # Last: this is the file that a resume reads.
        write_whole(folder / RESOLVED_NAME, dump_resolved(loaded).encode())


def recorded_spec(run: Run) -> LoadedSpec:
    """The spec that the run last ran.

    Raises:
        CheckpointError: It is not there.
        SpecError: An environment variable that it needs is not set.
    """
    return changed_spec(run)


def changed_spec(
    run: Run,
    *,
    spec: str = "",
    values: tuple[str, ...] = (),
    overrides: tuple[str, ...] = (),
) -> LoadedSpec:
    """The spec of a resume: the recorded one, or another, with what the command line adds.

    Args:
        run: The run.
        spec: Another spec file instead of the recorded one.
        values: Files merged over it.
        overrides: ``PATH=VALUE`` texts, put in last.

    Raises:
        CheckpointError: There is no recorded spec.
        SpecError: The spec is not valid.
    """
    if spec:
        return load_spec(spec, values=values, overrides=overrides)
    path = run.path / "spec" / RESOLVED_NAME
    if not path.is_file():
        raise CheckpointError.of(
            "E375", f"the run has no {path}", "name its spec: jobrun resume RUN --spec FILE"
        )
    return load_spec(str(path), values=values, overrides=overrides, folder=str(run.folder))


def compiled(loaded: LoadedSpec) -> Job:
    """The job of a spec.

    Raises:
        SpecError: It does not compile.
    """
    return compile_job(loaded).job


def plan_text(job: Job) -> str:
    """What runs where, in order, as JSON."""
    return json.dumps(plan_of(job), indent=2) + "\n"


def plan_of(job: Job) -> dict[str, Any]:
    """What runs where, in order, as JSON values."""
    return {
        "job": job.name,
        "nodes": [node.name for node in job.cluster],
        "groups": {group.name: _tasks(group) for group in job.groups},
        "state": {node: list(names) for node, names in job.state},
        "constants": {node: list(names) for node, names in job.constants},
        "exact": job.exactness.exact,
        "not_exact_because": [list(reason) for reason in job.exactness.reasons],
        "blas_threads": job.blas_threads,
        "seed": job.seed,
    }


def _tasks(group: TaskGroup) -> list[dict[str, Any]]:
    return [
        {
            "task": task.name,
            "node": task.node,
            "needs": list(task.needs),
            "instances": task.instances,
            "rebuild": task.rebuild,
            "outputs": [output.name for output in task.outputs],
        }
        for task in group.tasks
    ]


def _authored(files: dict[str, str]) -> dict[str, str]:
    """File names without folders, made different where two are alike; options as one text."""
    named: dict[str, str] = {}
    options = ""
    for shown, text in files.items():
        if shown.startswith("--set"):
            options += f"{shown}: {text}\n"
            continue
        name = Path(shown).name
        stem, number = name, 1
        while name in named or name in {RESOLVED_NAME, PLAN_NAME}:
            number += 1
            name = f"{number}-{stem}"
        named[name] = text
    return {**named, **({"options.txt": options} if options else {})}


def _keep_previous(folder: Path) -> None:
    current = folder / RESOLVED_NAME
    if current.is_file():
        number = len(list(folder.glob("resolved-*.yaml"))) + 1
        write_whole(folder / f"resolved-{number}.yaml", current.read_bytes())
