"""What a run was made from: a loaded spec, or a job that was built in Python.

The one place that knows the difference; for everyone else it is something with a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import assert_never

from jobrun.compile.handmade import complete
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.graph.render import render_job
from jobrun.graph.types import Job
from jobrun.runner.drift import Change, Kind, spec_changes
from jobrun.runner.durable import disk_faults, write_whole
from jobrun.runner.rundir import Run
from jobrun.runner.specdir import (
    PLAN_NAME,
    RESOLVED_NAME,
    compiled,
    plan_text,
    recorded_spec,
    write_spec,
)
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import LoadedSpec

GRAPH_NAME = "graph.txt"

# First words of the lines of a rendered job that are about when a run ends, what becomes of a
# failure, what is kept and told, and where it runs; never about a bit of the state.
_SAFE_WORDS = frozenset(
    {
        "stop",
        "metric",
        "fail_if",
        "expect",
        "deadline",
        "checkpoint",
        "limits",
        "place",
        "layout",
    }
)


@dataclass(frozen=True, slots=True)
class PythonJob:
    """A completed job that no spec stands behind.

    Attributes:
        job: As completed.
        folder: Where relative paths start, absolute.
    """

    job: Job
    folder: str
    environment_digests: Mapping[str, str] = field(default_factory=dict)


Authored = LoadedSpec | PythonJob


def digest_of(authored: Authored) -> str:
    """``sha256:…`` of what is to be run."""
    if isinstance(authored, LoadedSpec):
        return spec_digest(authored)
    return f"sha256:{hashlib.sha256(render_job(authored.job).encode()).hexdigest()}"


def job_of(authored: Authored) -> Job:
    """The checked job.

    Raises:
        SpecError: It does not compile.
    """
    match authored:
        case LoadedSpec():
            return compiled(authored)
        case PythonJob():
            return complete(authored.job).job
        case _:
            assert_never(authored)


def write_authored(run: Path, authored: Authored, job: Job) -> None:
    """Write what is to be run into the run's directory.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    if isinstance(authored, LoadedSpec):
        write_spec(run, authored, job)
        return
    folder = run / "spec"
    with disk_faults(f"write {folder}"):
        current = folder / GRAPH_NAME
        if current.is_file():
            number = len(list(folder.glob("graph-*.txt"))) + 1
            write_whole(folder / f"graph-{number}.txt", current.read_bytes())
        write_whole(folder / PLAN_NAME, plan_text(job).encode())
        # Last: this is what a resume compares with.
        write_whole(current, render_job(job).encode())


def is_from_python(run: Run) -> bool:
    """Whether the run was made from a job built in Python."""
    folder = run.path / "spec"
    return (folder / GRAPH_NAME).is_file() and not (folder / RESOLVED_NAME).is_file()


def recorded(run: Run) -> LoadedSpec:
    """The spec that the run last ran.

    Raises:
        UsageError: E376, it was made in Python.
        CheckpointError: It is not there.
        SpecError: An environment variable that it needs is not set.
    """
    refuse_python(run)
    return recorded_spec(run)


def refuse_python(run: Run) -> None:
    """Refuse to go on with a spec, where there was none.

    Raises:
        UsageError: E376, the run was made in Python.
    """
    if is_from_python(run):
        raise UsageError.of(
            "E376",
            f"run {run.name} was started from Python, so there is no spec to go on with",
            f"resume or fork it from Python, with the job: jobrun.resume({str(run.path)!r}, job)",
        )


def changes_since(run: Run, present: Authored) -> tuple[Change, ...]:
    """How what is to be run now differs from what was run.

    Raises:
        UsageError: The run was made from a spec and the present job was not, or the other way.
        CheckpointError: The record is not there.
    """
    match present:
        case LoadedSpec():
            return spec_changes(recorded(run), present)
        case PythonJob():
            return graph_changes(_recorded_graph(run), render_job(present.job))
        case _:
            assert_never(present)


def graph_changes(before: str, after: str) -> tuple[Change, ...]:
    """Differences of two rendered graphs, each stretch of changed lines once.

    What ends a run, what is measured and what is kept may change; everything else is semantic.
    """
    old, new = before.splitlines(), after.splitlines()
    changes = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lost, got = old[i:j], new[k:m]
            place = _section(old, i) if lost else _section(new, k)
            changes.append(Change(place, _kind([*lost, *got]), _lines(lost), _lines(got)))
    return tuple(changes)


def _recorded_graph(run: Run) -> str:
    path = run.path / "spec" / GRAPH_NAME
    if is_from_python(run):
        return path.read_text()
    if (path.parent / RESOLVED_NAME).is_file():
        raise UsageError.of(
            "E376",
            f"run {run.name} was made from a spec, and not from a job built in Python",
            "resume it with its spec: jobrun resume, or jobrun.resume(path)",
        )
    raise CheckpointError.of(
        "E375", f"the run has no {path}", "put it back from a copy of the run, or start anew"
    )


def _kind(lines: list[str]) -> Kind:
    words = {line.split(" ", 1)[0] for line in lines}
    if words <= _SAFE_WORDS:
        return "safe"
    return "numerics" if words == {"blas_threads"} else "semantic"


def _section(lines: list[str], at: int) -> str:
    """``graph.local/lloyd`` for a line of that task, else the line's first words."""
    for line in reversed(lines[: at + 1]):
        words = line.split(";")[0].split(" [")[0].split()
        if words and words[0] == "task":
            return f"graph.{words[1]}"
        if not line.startswith(" "):
            return f"graph.{words[0] if words else ''}"
    return "graph"


def _lines(lines: list[str]) -> str:
    text = "; ".join(line.strip() for line in lines)
    return text if len(text) <= 120 else text[:117] + "…"
