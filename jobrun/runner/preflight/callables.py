"""Check the callables that a job calls: that they are there, and take what their steps give."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from jobrun.core.errors import Fault
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import CALL_EXTRAS, CallPython
from jobrun.graph.types import Job
from jobrun.runner.identity.callable_parameters import find_parameters
from jobrun.runner.identity.callable_sources import Source, find_definition, find_source


def check_callables(job: Job, folder: Path, *, imports: bool = False) -> Iterator[Fault]:
    """Check a job's callables before it runs: modules, names and arguments, in source text.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
        imports: Import the modules too, which runs their code.
    """
    for step in iter_steps(job):
        if isinstance(step, CallPython):
            yield from _check_callable(step, folder, imports=imports)


def _check_callable(step: CallPython, folder: Path, *, imports: bool) -> Iterator[Fault]:
    module, _, function = step.target.partition(":")
    base = folder / step.folder
    source = find_source(module, base)
    if source is None:
        message = f"no module '{module}' for {step.target}"
        mend = f"put {module.replace('.', '/')}.py beside the spec, or install it"
        if module.endswith(".py"):
            mend = f"write '{module.removesuffix('.py')}:{function}', without '.py'"
        yield Fault("E374", message, mend, step.origin, step.path)
        return
    if imports:
        yield from _check_import(step, module, function, base)
    else:
        yield from _check_definition(step, source, function, folder)
    yield from _check_arguments(step, source, function)


def _check_definition(
    step: CallPython, source: Source, function: str, folder: Path
) -> Iterator[Fault]:
    if source.path is None or source.path.suffix != ".py":
        return
    found, known = find_definition(source.path, function.partition(".")[0])
    if not found:
        message = f"{source.path.name} has no '{function}'"
        mend = did_you_mean(function, known)
        if source.path.is_relative_to(folder):
            yield Fault("E392", message, mend, step.origin, step.path)
        else:
            yield Fault("E374", message, mend, step.origin, step.path)


def _check_arguments(step: CallPython, source: Source, function: str) -> Iterator[Fault]:
    """Check a ``call``'s arguments against the callable's parameters, if its source shows them."""
    if source.path is None or source.path.suffix != ".py":
        return
    takes = find_parameters(source.path, function)
    if takes is None:
        return
    given = [name for name, _ in step.arguments]
    known = {*takes.names, *takes.positional}
    unknown = [name for name in given if name not in known and not takes.takes_any]
    free = [name for name in takes.names if name not in given]
    missing = [name for name in takes.required if name not in given and name not in CALL_EXTRAS]
    faults: list[tuple[str, str]] = []
    for name in unknown:
        meant = nearest(name, free)
        if meant in missing:
            missing.remove(meant)
        mend = did_you_mean(name, free) if free else "take it out of 'with'"
        faults.append((f"{step.target} has no parameter '{name}'", mend))
    for name in missing:
        mend = f"write with: {{{name}: …}}, or give the parameter a default"
        faults.append((f"{step.target} needs '{name}', which 'with' does not give", mend))
    for name in takes.positional:
        mend = "take '/' out of its parameters"
        message = f"'{name}' of {step.target} can be given by position only, and 'with' gives names"
        faults.append((message, mend))
    for message, mend in faults:
        yield Fault("E393", message, mend, step.origin, step.path)


def _check_import(step: CallPython, module: str, function: str, base: Path) -> Iterator[Fault]:
    sys.path.insert(0, str(base))
    try:
        found: object = importlib.import_module(module)
        for name in function.split("."):
            found = getattr(found, name)
    except Exception as error:  # noqa: BLE001 - a module's own code may raise anything
        message = f"{step.target} cannot be imported: {type(error).__name__}: {error}"
        mend = "fix the module, or install what it needs"
        yield Fault("E374", message, mend, step.origin, step.path)
    finally:
        sys.path.remove(str(base))
