"""Compile specs that are texts in a test, through a real file."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from jobrun.compile.pipeline import Compiled, compile_job
from jobrun.core.errors import Fault, SpecError
from jobrun.graph.types import Job, Scope, Task
from jobrun.spec.load import load_spec

# What most specs of tests have no need to say again.
_DEFAULTS = {
    "jobrun": "jobrun: 1\n",
    "name": "name: job\n",
    "init": "init: [{task: start, steps: [w = 1.0]}]\n",
    "epoch": "epoch: [{task: work, steps: [w = w + 1]}]\n",
    "stop": "stop: [{epochs: 3}]\n",
}


def spec_text(text: str) -> str:
    """Complete a spec by the required keys that it lacks: state ``w``, and a task for it."""
    text = dedent(text)
    keys = {line.split(":")[0] for line in text.splitlines() if line[:1].isalpha()}
    return "".join(value for key, value in _DEFAULTS.items() if key not in keys) + text


def compile_text(folder: Path, text: str) -> Compiled:
    """Compile a spec, completed by ``spec_text``."""
    path = folder / "job.yaml"
    path.write_text(spec_text(text))
    return compile_job(load_spec(str(path)))


def job_of(folder: Path, text: str) -> Job:
    """Compile a spec that must compile without a warning; return its job."""
    compiled = compile_text(folder, text)
    assert compiled.warnings == ()
    return compiled.job


def faults_of(folder: Path, text: str) -> tuple[Fault, ...]:
    """Return the errors of a spec that must not compile."""
    with pytest.raises(SpecError) as caught:
        compile_text(folder, text)
    for fault in caught.value.faults:
        assert fault.mend, fault
        assert fault.where is not None, fault
        assert fault.message[0].islower() or not fault.message[0].isalpha(), fault
        assert not fault.message.endswith("."), fault
    return caught.value.faults


def fault_of(folder: Path, text: str) -> Fault:
    """Return the only error of a spec that must not compile."""
    faults = faults_of(folder, text)
    assert len(faults) == 1, [f"{fault.code} {fault.message}" for fault in faults]
    return faults[0]


def codes_of(folder: Path, text: str) -> list[str]:
    """Return the codes of all errors, in their order; empty when the spec compiles."""
    try:
        compile_text(folder, text)
    except SpecError as error:
        return [fault.code for fault in error.faults]
    return []


def task_of(job: Job, name: str, node: str | None = None) -> Task:
    """Return the task of that name."""
    return next(
        task
        for group in job.groups
        for task in group.tasks
        if task.name == name and node in (None, task.node)
    )


def scopes_of(task: Task) -> dict[str, Scope]:
    """Return the scopes of a task as a dict."""
    return dict(task.scopes)
