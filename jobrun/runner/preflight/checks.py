"""Check what a job needs before it runs: data files, callables, programs, object stores.

Data files and members, callables, programs, memory, a place to write, free space. All faults
together; what a step of the job may still make is only a warning.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from jobrun.compile.types.job_types import Types
from jobrun.core.codes import Code
from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, SpecError, errors_only
from jobrun.core.file_formats import format_of
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.checkpoint_policy import PLUGIN, needs_plugin
from jobrun.graph.query import has_callables, iter_steps
from jobrun.graph.readers import FileSource, Reader, ReadRecords, readers_in
from jobrun.graph.steps import CallPython, DataFile, Load, RunProgram, Save, Step
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_path, literal_text
from jobrun.runner.preflight.blob_types import (
    check_memory,
    check_types,
    infer_header_types,
    read_member_header,
)

_PROBE = ".probe-"


def preflight(
    job: Job,
    folder: Path,
    listeners: tuple[str, ...] = (),
    *,
    imports: bool = False,
    compiled: Types | None = None,
) -> tuple[Fault, ...]:
    """Check before a run what the job needs on this machine; return a fault for each lack.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
        listeners: Names of listeners, beside those of the job.
        imports: Import the callables' modules too, which runs their code.
        compiled: The types of the job's blobs, if the compiler's are at hand.
    """
    types = infer_header_types(job, folder, compiled)
    faults = [*check_memory(types), *check_types(job, types, compiled), *check_readers(job, folder)]
    faults += _check_files_and_programs(tuple(iter_steps(job)), folder)
    if has_callables(job):
        # Lazy: it parses modules of callables, which needs more imports.
        signatures = importlib.import_module("jobrun.runner.preflight.callable_signatures")
        faults += signatures.check_callables(job, folder, imports=imports)
    faults += _check_codec(job)
    if job.adapt:
        adapted = importlib.import_module("jobrun.runner.preflight.adapted_classes")
        faults += adapted.check_adapted(job, folder)
    if names := (*job.listeners, *listeners):
        # Lazy: most jobs have none.
        faults += importlib.import_module("jobrun.runner.listeners.listener").check_listeners(names)
    return tuple(dict.fromkeys(faults))


def _check_files_and_programs(steps: Sequence[Step], folder: Path) -> Iterator[Fault]:
    """Check the files that steps load and save, as far as their names are known, and programs."""
    makers = any(isinstance(step, CallPython | RunProgram) for step in steps)
    saving = [file for step in steps if isinstance(step, Save) for file in step.files]
    saved = {literal_path(file, folder) for file in saving}
    for step in steps:
        match step:
            case RunProgram():
                yield from _check_program(step)
            case Load():
                for file in step.files:
                    path = literal_path(file, folder)
                    if path is not None and path not in saved:
                        yield from _check_data_file(step, file, path, may_appear=makers)
            case Save():
                for path in filter(None, (literal_path(file, folder) for file in step.files)):
                    yield from _check_target(step, path)
            case _:
                pass


def _check_data_file(
    step: Load, file: DataFile, path: Path, *, may_appear: bool
) -> Iterator[Fault]:
    if not path.is_file():
        from jobrun.formats.errors import copying_mend  # noqa: PLC0415 - with this fault only

        name = literal_text(file.path) or ""
        mend = copying_mend(name) or _suggest_file(path)
        message = f"no data file {name}"
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
        message = f"cannot read {literal_text(file.path)}: {error}"
        yield Fault("E373", message, "see whether the file is whole", step.origin, step.path)


def _check_target(step: Save, path: Path) -> Iterator[Fault]:
    """Check that a ``save`` step can make its file, or replace it, as things are before the run."""
    parent = next(parent for parent in path.parents if os.path.exists(parent))  # noqa: PTH110
    if path.is_dir():
        reason, mend = "it is a directory", "write the name of a file in it"
    elif not parent.is_dir():
        reason, mend = f"{parent} is a file, not a folder", "choose another folder"
    elif os.path.lexists(path) and not os.access(path, os.W_OK):
        reason, mend = "it is read-only", "choose another name, or make it writable: chmod u+w"
    elif not os.access(parent, os.W_OK | os.X_OK):
        reason, mend = f"{parent} is not writable", "correct its permissions, or choose another"
    else:
        return
    yield Fault("E285", f"cannot write {path}: {reason}", mend, step.origin, step.path)


def _suggest_file(path: Path) -> str:
    """Suggest the nearest name in its folder for a data file that preflight does not find."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    names = [item.name for item in path.parent.iterdir()]
    data = [name for name in names if format_of(Path(name).suffix.lower())]
    if (match := nearest(path.name, data or names)) is not None:
        return did_you_mean(path.name, [match])
    return did_you_mean(path.name, data) if data else f"put it into {path.parent}"


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        # ValueError: the loaded module has no ``__spec__``.
        return False


def _check_codec(job: Job) -> Iterator[Fault]:
    """Check before init that the package of the spec's compression codec is installed."""
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


def _check_program(step: RunProgram) -> Iterator[Fault]:
    name = "bash" if step.shell else literal_text(step.command[0])
    if name is None or "/" in name:
        return
    from shutil import which  # noqa: PLC0415 - with all archive formats

    if which(name) is not None:
        return
    message = f"no program '{name}' on PATH"
    yield Fault("W180", message, "install it, or see PATH", step.origin, step.path, "warning")


def raise_errors(faults: tuple[Fault, ...]) -> None:
    """Raise the errors among the faults of a preflight check, if there are any.

    Raises:
        SpecError: Shapes or dtypes do not fit, or a module of the spec lacks a function.
        EnvironmentFaultError: There are others.
    """
    raise_spec_errors(faults)
    errors = tuple(fault for fault in faults if fault.severity == "error")
    if errors:
        raise EnvironmentFaultError(*errors)


def check_readers(job: Job, folder: Path) -> tuple[Fault, ...]:
    """Check each reader's file before a job runs: that it exists and its header is suitable.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
    """
    faults: list[Fault] = []
    for reader, shares in _count_shares(job).items():
        if isinstance(reader.source, FileSource):
            faults += _check_file(reader, reader.source, shares, folder)
    return tuple(faults)


def _count_shares(job: Job) -> dict[Reader, int]:
    """Count among how many tasks each reader's rows are divided, to check there are enough."""
    shares: dict[Reader, int] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                by_instance = task.read.reader.shard == "instance"
                parts = task.read.parts * (task.instances if by_instance else 1)
                for reader in readers_in(task.read.reader):
                    shares[reader] = max(shares.get(reader, 1), parts)
    return shares


def _check_file(reader: Reader, source: FileSource, shares: int, folder: Path) -> Iterator[Fault]:
    text = literal_text(source.path)
    if text is None:
        return
    path = Path(os.path.normpath(folder / source.folder / text))
    lengths: dict[str, int] = {}
    for field in reader.fields:
        for member in field.members:
            header = read_member_header(path, member)
            if header is not None and not header[1]:
                message = f"'{member or text}' is a single value and has no rows"
                yield _fault("E288", message, "load it in init instead", reader)
            elif header is not None and member == field.lengths and not _may_be_lengths(*header):
                message = (
                    f"'{member}' of {text} holds the lengths of '{field.name}', and is {header[0]} "
                    f"of shape {header[1]}"
                )
                yield _fault("E514", message, "make them integers, one for each record", reader)
            elif header is not None and (field.lengths is None or member == field.lengths):
                # The number of values is known only after the lengths are read.
                lengths[member] = header[1][0]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{count} of '{member}'" for member, count in lengths.items())
        message = f"the members of {text} differ in length: {shown}"
        from jobrun.formats.errors import UNEVEN_MEND  # noqa: PLC0415 - with this fault only

        yield _fault("E288", message, UNEVEN_MEND, reader)
    for count in set(lengths.values()):
        if not count:
            mend = "see how it was made, or take the reader out"
            yield _fault("E232", f"{text} has no rows to read", mend, reader)
        elif count < shares:
            message = f"reader '{reader.name}' has {count} rows for {shares} shares"
            mend = "use fewer nodes or instances, or leave 'shard' out"
            yield _fault("E232", message, mend, reader)


def _may_be_lengths(dtype: str, shape: tuple[int, ...]) -> bool:
    return len(shape) == 1 and dtype[1:2] in {"i", "u"}


def _fault(code: Code, message: str, mend: str, reader: Reader) -> Fault:
    return Fault(code, message, mend, reader.origin, reader.path)


# Names of ``adapt``, what the rules of operators find, functions that a module beside the spec does
# not define, and arguments that a function does not take: faults of the spec, wherever they are
# found.
SPEC_CODES = frozenset({"E250", "E251", "E290", "E291", "E292", "E294", "E392", "E393"})


def raise_spec_errors(faults: tuple[Fault, ...]) -> None:
    """Raise a ``SpecError`` if any faults found by the preflight checks are errors of the spec.

    Raises:
        SpecError: There are.
    """
    errors = tuple(fault for fault in errors_only(faults) if fault.code in SPEC_CODES)
    if errors:
        raise SpecError(*errors)


def check_upload(job: Job) -> tuple[Fault, ...]:
    """Check in the preflight that uploads will work: create and delete an object in the bucket.

    A store that does not answer now may do so later: unless the upload is required that is a
    warning. That there is no bucket, or no permission, is an error.
    """
    policy = job.checkpoint.upload
    if policy is None or not job.checkpoint.enabled:
        return ()
    from jobrun.core.text.object_url import is_object_url, parse_object_url  # noqa: PLC0415 - of uploads

    if not is_object_url(policy.to):
        return ()
    # Lazy: only uploads to an object store need this.
    from jobrun.checkpoint.stores.bucket import Bucket  # noqa: PLC0415

    name = f"{_PROBE}{uuid.uuid4().hex}"
    try:
        bucket = Bucket(parse_object_url(policy.to))
        if not bucket.put_new(name, b"jobrun"):
            raise EnvironmentFaultError.of(
                "E336",
                f"cannot write {policy.to}: the store says that a new random name is taken",
                "see whether anything else answers in place of the store",
            )
        with contextlib.suppress(EnvironmentFaultError):
            # Permission to write is enough; deleting is not needed.
            bucket.delete([name])
    except EnvironmentFaultError as error:
        # The message leaves out the name of the probe object.
        fault = replace(error.faults[0], message=error.faults[0].message.replace(f"/{name}", ""))
        bears = fault.code == "E331" and not policy.required
        where = job.checkpoint.upload_at
        path = "checkpoint.collect" if job.checkpoint.collect_to else "checkpoint.upload.to"
        if bears:
            message = f"{fault.message}; it is tried again when an epoch is saved"
            return (Fault("W184", message, fault.mend, where, path, "warning"),)
        return (Fault(fault.code, fault.message, fault.mend, where, path),)
    return ()


def require_interpreter_lock() -> None:
    """Check before a run that Python's interpreter lock (GIL) is on; raise if it is off.

    Raises:
        EnvironmentFaultError: E399.
    """
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    if not is_locked():
        raise EnvironmentFaultError.of(
            "E399",
            f"this Python ({sys.executable}) runs without its global interpreter lock (GIL), which "
            "jobrun relies on",
            "set PYTHON_GIL=1, or use the usual build of Python",
        )
