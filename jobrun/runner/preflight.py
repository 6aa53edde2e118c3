"""Looks at what a job needs from the machine, before anything runs. Executes nothing.

Data files and members, callables, programs, memory, a place to write, free space. All faults
together; what a step of the job may still make is only a warning.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobrun.core.compression import PLUGIN, needs_plugin
from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError
from jobrun.core.names import did_you_mean
from jobrun.core.quantities import size
from jobrun.graph.steps import CallPython, DataFile, Load, RunProgram, Save
from jobrun.graph.types import Job
from jobrun.runner.durable import disk_faults
from jobrun.runner.fingerprints import literal_path, plain_text
from jobrun.runner.memory import memory_faults
from jobrun.runner.parts import steps_of
from jobrun.runner.readers import reader_faults
from jobrun.runner.sources import (
    Source,
    defines,
    find_source,
    imported_sources,
    script_digests,
)
from jobrun.runner.typecheck import refuse_types, type_faults

_LITTLE_SPACE_BYTES = 256 << 20


def preflight(job: Job, folder: Path, *, imports: bool = False) -> tuple[Fault, ...]:
    """Everything that can be seen to be missing, without running or importing anything.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
        imports: Import the callables' modules too, which runs their code.
    """
    steps = tuple(steps_of(job))
    makers = any(isinstance(step, CallPython | RunProgram) for step in steps)
    saving = [file for step in steps if isinstance(step, Save) for file in step.files]
    saved = {literal_path(file, folder) for file in saving}
    faults = [
        *memory_faults(job, folder), *type_faults(job, folder), *reader_faults(job, folder)
    ]  # fmt: skip
    for step in steps:
        match step:
            case Load():
                for file in step.files:
                    path = literal_path(file, folder)
                    if path is not None and path not in saved:
                        faults += _data_faults(step, file, path, may_appear=makers)
            case CallPython():
                faults += _callable_faults(step, folder, imports=imports)
            case RunProgram():
                faults += _program_faults(step)
            case _:
                pass
    faults += _codec_faults(job)
    return tuple(dict.fromkeys(faults))


def callable_digests(job: Job, folder: Path) -> dict[str, str]:
    """``sha256:…`` of the source of each callable, by ``module:function``, and of what it uses.

    With them, by ``module``, the modules of the spec's folder that they import, however deep;
    and by ``./path`` the scripts of that folder which programs are started with.
    """
    digests: dict[str, str] = {}
    for step in steps_of(job):
        if isinstance(step, CallPython):
            module = step.target.partition(":")[0]
            base = folder / step.folder
            source = find_source(module, base)
            if source is not None and source.digest:
                digests[step.target] = source.digest
                digests |= imported_sources(source, module, base)
        elif isinstance(step, RunProgram) and not step.shell:
            words = (plain_text(word) for word in step.command)
            digests |= script_digests([word for word in words if word], folder / step.folder)
    return dict(sorted(digests.items()))


def probe_directory(directory: Path) -> tuple[Fault, ...]:
    """Write, sync and remove a small file, so that a disk says no now and not hours later.

    Returns:
        Warnings.

    Raises:
        EnvironmentFaultError: Nothing can be written there.
    """
    probe = directory / f".probe.{os.getpid()}"
    with disk_faults(f"write in {directory}"):
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, b"x" * 4096)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            probe.unlink()
        free_bytes = shutil.disk_usage(directory).free
    if free_bytes >= _LITTLE_SPACE_BYTES:
        return ()
    message = f"only {size(free_bytes)} are free in {directory}"
    mend = "free space, keep fewer checkpoints, or choose another --run-dir"
    return (Fault("W181", message, mend, severity="warning"),)


def _data_faults(step: Load, file: DataFile, path: Path, *, may_appear: bool) -> Iterator[Fault]:
    if not path.is_file():
        near = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
        mend = did_you_mean(path.name, near) if near else f"there is no folder {path.parent}"
        message = f"no data file {plain_text(file.path)}"
        fault = Fault("E372", message, mend, step.origin, step.path)
        may_appear = may_appear and not path.exists()
        yield replace(fault, severity="warning") if may_appear else fault
        return
    describe = importlib.import_module("jobrun.formats.headers").describe
    try:
        describe(str(path), file.member)
    except JobrunError as error:
        for fault in error.faults:
            yield Fault(fault.code, fault.message, fault.mend, step.origin, step.path)
    except (OSError, ValueError) as error:
        message = f"cannot read {plain_text(file.path)}: {error}"
        yield Fault("E373", message, "see whether the file is whole", step.origin, step.path)


def _callable_faults(step: CallPython, folder: Path, *, imports: bool) -> Iterator[Fault]:
    module, _, function = step.target.partition(":")
    base = folder / step.folder
    source = find_source(module, base)
    if source is None:
        message = f"no module '{module}' for {step.target}"
        mend = f"put {module.replace('.', '/')}.py beside the spec, or install it"
        yield Fault("E374", message, mend, step.origin, step.path)
    elif imports:
        yield from _import_faults(step, module, function, base)
    else:
        yield from _definition_faults(step, source, function)


def _definition_faults(step: CallPython, source: Source, function: str) -> Iterator[Fault]:
    if source.path is None:
        return
    found, known = defines(source.path, function.partition(".")[0])
    if not found:
        message = f"{source.path.name} has no '{function}'"
        yield Fault("E374", message, did_you_mean(function, known), step.origin, step.path)


def _import_faults(step: CallPython, module: str, function: str, base: Path) -> Iterator[Fault]:
    sys.path.insert(0, str(base))
    try:
        found: object = importlib.import_module(module)
        for name in function.split("."):
            found = getattr(found, name)
    except Exception as error:  # noqa: BLE001 - a module's own code may raise anything
        message = f"{step.target} cannot be imported: {type(error).__name__}: {error}"
        mend = "mend the module, or install what it needs"
        yield Fault("E374", message, mend, step.origin, step.path)
    finally:
        sys.path.remove(str(base))


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        # It is put out of reach.
        return False


def _codec_faults(job: Job) -> Iterator[Fault]:
    """Else it would show at the first save, when init has run."""
    codec = needs_plugin(job.checkpoint.compression)
    if codec and not _is_installed(PLUGIN):
        yield Fault(
            "E326",
            f"checkpoints are to be compressed with {codec}, which the package {PLUGIN} makes, and "
            "it is not installed",
            "pip install 'jobrun[hdf5plugin]', or write compression: deflate",
            job.checkpoint.compression_at,
            "checkpoint.compression",
        )


def _program_faults(step: RunProgram) -> Iterator[Fault]:
    name = "bash" if step.shell else plain_text(step.command[0])
    if name is None or "/" in name or shutil.which(name) is not None:
        return
    message = f"no program '{name}' on PATH"
    yield Fault("W180", message, "install it, or see PATH", step.origin, step.path, "warning")


def refuse(faults: tuple[Fault, ...]) -> None:
    """Raise the errors among the faults, if there are any.

    Raises:
        SpecError: Shapes or dtypes do not fit.
        EnvironmentFaultError: There are others.
    """
    refuse_types(faults)
    errors = tuple(fault for fault in faults if fault.severity == "error")
    if errors:
        raise EnvironmentFaultError(*errors)
