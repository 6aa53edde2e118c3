"""Read and write ``run.json``, the record of a run's facts and status."""

from __future__ import annotations

import errno
import math
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict

from jobrun.core.errors import CheckpointError
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.json_files import build, read_json, write_json
from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.runner.rundir.journal import JOURNAL_NAME

RECORD_NAME = "run.json"
FORMAT = 1
# Shown for a run that is recorded as running but whose lock no process holds.
KILLED = "killed"
_WITHOUT_RECORD = (
    "put run.json back from a copy of the run, or move the directory away, or start again beside "
    "it: jobrun run SPEC --resume never"
)
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

# Keys of ``environment`` that decide the last bits of results.
NUMERIC_KEYS = (
    "numpy", "blas", "blas_kernel", "blas_threads", "cpu_features", "machine", "byte_order",
    "python", "jobrun", "hash_seed", "gpus",
)  # fmt: skip
# Environment variables of libraries, which are compared one by one.
LIBRARY_VARIABLES = "variables"
# Those of the keys above that are compared for every job.
NUMERIC_PACKAGES = frozenset({"numpy", "h5py"})

Param = float | int | bool | str
Status = Literal["running", "finished", "stopped", "interrupted", "failed"]


class RunRecord(Struct, frozen=True):
    """The facts and the status of one run, as ``run.json`` has them.

    Attributes:
        run_id: A UUID; every checkpoint of the run carries it.
        job: The job's name.
        created: UTC, ISO 8601, with microseconds.
        order: Microseconds since 1970 by the clock of that moment, but more than that of each run
            that was there already, should the clock have been set back; see ``creation_order``.
        status: ``running`` remains after a kill: only the lock shows whether a process lives.
        epoch: The newest epoch that was acknowledged when this was written; -1 for none.
        exit_code: Of the last invocation that ended; None while running, or killed.
        reason: Why it ended, in words.
        resumable: False for ``checkpoint: none``.
        generation: Raised by each ``resume --epoch N``.
        parent: For a fork: the run and the epoch it started from.
        folder: The spec's folder, relative to the run's directory.
        spec_digest: Of what the resolved spec that last ran means.
        resolved_digest: Of the bytes of ``spec/resolved.yaml``; empty for a job built in Python.
        started_after: The epoch from which the last start began; -1 for init.
        starts: How many starts in a row began there, because all before this one died.
        params: The values of the spec's params, hidden where they are secret; a value that
            comes from an environment variable stays a reference.
        seed: Of the random streams.
        given: Fields, such as ``params.k`` and ``seed``, whose values are not written in the spec:
            those of ``--set`` and ``--values``. Runs of older versions have none.
        limit_epochs: The stop item that ``--epochs`` added to this run; 0 for none.
        accepted: The drift that was accepted, field by field, ever.
        callables: Digest of the source of each callable, of all that it imports and that is not
            installed, and of scripts in the spec's folder.
        packages: Versions of the distributions that callables import, and that those require.
        data: Size, time and digest of each data file that epochs read.
        variables: Digest of each environment variable that the spec reads.
        environment: Versions and numerics of the last invocation.
        provenance: Command line, git commit and lock files of the last invocation; see
            ``provenance``.
        resized: Each change of the number of nodes: after which epoch, of which family, and what
            became of its state.
        file_system: What kind the run was on then, such as ``ext4``.
        host: Where the last invocation ran.
        version: Of the jobrun that wrote this.
    """

    run_id: str
    job: str
    created: str
    order: int = 0
    status: Status = "running"
    epoch: int = -1
    exit_code: int | None = None
    reason: str = ""
    resumable: bool = True
    generation: int = 0
    parent: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."
    spec_digest: str = ""
    resolved_digest: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    seed: int = 0
    given: tuple[str, ...] = ()
    limit_epochs: int = 0
    started_after: int = -1
    starts: int = 1
    accepted: tuple[str, ...] = ()
    callables: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    resized: tuple[Mapping[str, Any], ...] = ()
    file_system: str = ""
    host: str = ""
    version: str = ""

    @property
    def versions(self) -> dict[str, Any]:
        """Return the versions and other numerics of this record, as far as they are compared."""
        keys = [key for key in NUMERIC_KEYS if self.callables or key != "hash_seed"]
        numerics = {key: numeric_value(self.environment, key) for key in keys}
        names = self.packages.keys() - NUMERIC_PACKAGES
        packages = {name: self.packages[name] for name in names}
        return {**numerics, **self.environment.get(LIBRARY_VARIABLES, {}), **packages}


def numeric_value(environment: Mapping[str, Any], key: str) -> Any:
    """Return a value of a run's ``environment`` as far as it decides results."""
    value = environment.get(key)
    # Patch releases of Python do not change arithmetic.
    return value.rpartition(".")[0] if key == "python" and isinstance(value, str) else value


class _Parent(Struct, frozen=True):
    """What ``parent`` holds."""

    run: str
    run_id: str
    epoch: int
    checkpoints: str
    blobs: tuple[str, ...] = ()


def creation_order(order: int, created: str) -> int:
    """Return a number to sort runs by creation: ``order`` in ``run.json``, or else ``created``.

    Args:
        order: That of ``run.json``; 0 where an older jobrun wrote it.
        created: That of ``run.json``.
    """
    return order or round(datetime.fromisoformat(created).timestamp() * 1e6)


def write_record(run: Path, record: RunRecord) -> None:
    """Replace the run's ``run.json`` by a new record, durably.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    content = {"format": FORMAT, **asdict(record), "params": params_as_json(record.params)}
    with disk_faults("E354", f"write {RECORD_NAME}"):
        write_json(run / RECORD_NAME, content, indent=2, private=True)


def params_as_json(params: Mapping[str, Param]) -> dict[str, Param]:
    """Convert a run's params for ``run.json``: infinities and long integers become text."""
    return {name: _json_value(value) for name, value in params.items()}


def _json_value(value: Param) -> Param:
    if isinstance(value, int):
        return integer_hex(value) if is_long(value) else value
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def read_record(run: Path) -> RunRecord:
    """Read the record in a run's ``run.json``.

    Raises:
        CheckpointError: There is none, it is damaged, or a newer jobrun wrote it.
    """
    try:
        content = read_json(run / RECORD_NAME)
    except OSError as error:
        # ENOTDIR, ENAMETOOLONG: the text is no path of a directory.
        if error.errno in {errno.EINVAL, errno.EISDIR, errno.EFBIG, errno.EIO}:
            raise _damaged(run, error.strerror or str(error)) from error
        if error.errno == errno.ENOENT and has_saved(run):
            raise _damaged(run, "") from error
        why = "" if error.errno in _NOT_THERE else f" ({RECORD_NAME}: {error.strerror or error})"
        raise CheckpointError.of(
            "E350",
            f"not a jobrun run directory: {run}{why}",
            "name a run below --run-dir, or the path of its directory",
        ) from error
    except ValueError as error:
        raise _damaged(run, f"it is not JSON ({error})") from error
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise _damaged(run, "it has no format number")
    if content["format"] > FORMAT:
        raise CheckpointError.of(
            "E375",
            f"{run / RECORD_NAME} was written by jobrun {content.get('version', '(unnamed)')}, "
            "which is newer than this one",
            "use that version of jobrun, or a later one",
        )
    try:
        return build_record(content)
    except ValueError as error:
        raise _damaged(run, str(error)) from error


def build_record(content: Any) -> RunRecord:
    """Build a run's record from the contents of ``run.json``, of any version of jobrun.

    Raises:
        ValueError: A field is missing, or not of its type.
    """
    record = build(RunRecord, content)
    if datetime.fromisoformat(record.created).tzinfo is None:
        raise ValueError("field 'created' has no time zone")
    if record.parent:
        build(_Parent, record.parent)
    for name, text in (("job", record.job), ("folder", record.folder)):
        # A null byte: no path can contain it.
        if "\0" in text:
            raise ValueError(f"field '{name}' holds NUL")
    return record


def has_saved(run: Path) -> bool:
    """Return whether a directory has epochs, or a journal of them, as a run's directory has."""
    try:
        facts = (run / JOURNAL_NAME).stat()
    except OSError:
        facts = None
    if facts is not None and stat.S_ISREG(facts.st_mode) and facts.st_size > 0:
        return True
    return bool(_saved_epochs(run))


def _saved_epochs(run: Path) -> list[Path]:
    try:
        return sorted((run / "checkpoints").glob("epoch-*"))
    except OSError:
        return []


def _damaged(run: Path, why: str) -> CheckpointError:
    """Build the error for a run without a readable record; say what can be read of it."""
    record, mend = (
        run / RECORD_NAME,
        _WITHOUT_RECORD,
    )
    if epochs := _saved_epochs(run):
        mend += (
            "; no command can write it again, and the epochs are not touched: "
            f"'jobrun inspect-checkpoint {epochs[-1]}' and 'jobrun ckpt export' read them"
        )
    message = (
        f"{record} is damaged: {why}" if why else f"{run} has saved epochs, and no {RECORD_NAME}"
    )
    return CheckpointError.of("E375", message, mend)
