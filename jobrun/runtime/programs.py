"""The ``run`` step: a program between blobs. It may fail; it may not outlive its step."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import Value
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import Logged
from jobrun.formats.data import read_member
from jobrun.graph.expr import Expr
from jobrun.graph.steps import RunProgram
from jobrun.runtime.files import folder_of
from jobrun.runtime.folders import packed, unpack
from jobrun.runtime.frame import Frame
from jobrun.runtime.landing import own
from jobrun.runtime.output import follow
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS

Getter = Callable[[Frame], Any]

INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
# sysexits.h EX_TEMPFAIL: the program wants to be called again.
CALL_AGAIN = 75
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class _Prepared:
    step: RunProgram
    command: list[Getter]
    values: list[tuple[str, Getter]]
    results: list[tuple[str, Getter, str, str]]
    kept: str = ""


def program_action(
    step: RunProgram, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """The function of a ``run`` step."""
    prepared = _Prepared(
        step,
        [getter(text) for text in step.command],
        [(name, getter(value)) for name, value in step.values],
        [
            (blob, getter(path), member, LEVELS[names.scope(blob)])
            for blob, path, member in step.results
        ],
        "".join(LEVELS[names.scope(blob)] for blob in step.folders),
    )

    def run(frame: Frame) -> None:
        with tempfile.TemporaryDirectory(prefix="jobrun-") as folder:
            _run(prepared, frame, folder)
        _read_results(prepared, frame)
        if step.state_dir:
            getattr(frame, prepared.kept)[step.folders[0]] = packed(state_dir_of(step, frame))

    return run


def _run(prepared: _Prepared, frame: Frame, scratch: str) -> None:
    command = [text(frame) for text in prepared.command]
    given = {name: get(frame) for name, get in prepared.values}
    environment = environment_of(prepared.step, frame, given, scratch) | frame.run.leash.mark()
    if prepared.step.state_dir:
        folder = state_dir_of(prepared.step, frame)
        _restore(folder, getattr(frame, prepared.kept)[prepared.step.folders[0]])
        environment["JOBRUN_STATE_DIR"] = str(folder)
    while True:
        frame.cancel.check()
        code, last = _once(prepared.step, frame, command, environment)
        if code != CALL_AGAIN:
            break
    frame.cancel.check()
    if code != 0:
        raise failure(command[0], code, last, shell=prepared.step.shell)


def state_dir_of(step: RunProgram, frame: Frame) -> Path:
    """Where a program's folder is while it runs: in the run's directory."""
    return Path(frame.run.run_dir, "state_dirs", frame.node.name, step.state_dir).absolute()


def _restore(folder: Path, content: Any) -> None:
    """Bring a folder to what is stored, if anybody has changed it since: a failed try, say."""
    with contextlib.suppress(TaskFailedError):
        # Such as a pipe that a killed program has left: it is not what was stored.
        if folder.is_dir() and np.array_equal(packed(folder), content):
            return
    unpack(content, folder)


def environment_of(
    step: RunProgram, frame: Frame, values: Mapping[str, Value], scratch: str
) -> dict[str, str]:
    """All variables that the program sees; arrays are written as files into ``scratch``."""
    variables = {
        "JOBRUN_EPOCH": str(frame.epoch),
        "JOBRUN_INSTANCE": str(frame.instance),
        "JOBRUN_INSTANCES": str(frame.instances),
        "JOBRUN_NODE": frame.node.name,
        "JOBRUN_RUN_PATH": frame.run.run_dir,
        "JOBRUN_SEED": str(frame.run.seed),
        "JOBRUN_TASK": frame.task,
    }
    for name in (*INHERITED, *step.env):
        if name in os.environ:
            variables[name] = os.environ[name]
    for name, value in values.items():
        variables[f"JOBRUN_{name.upper()}"] = _handed(name, value, scratch)
    return variables


def failure(program: str, code: int, last: str, *, shell: bool) -> TaskFailedError:
    """Why a program that ended with ``code`` failed; ``last`` is the end of its output.

    Raises:
        EnvironmentFaultError: E210, if it did not even start.
    """
    what = "the command line" if shell else f"the program '{program}'"
    said = f"; its last line was: {last}" if last else ""
    if code in {_NOT_FOUND, _NOT_EXECUTABLE}:
        reason = "was not found" if code == _NOT_FOUND else "is not executable"
        raise EnvironmentFaultError.of(
            "E210",
            f"{what} {reason} (exit code {code}){said}",
            "install it, or correct its path; only PATH and the variables in 'env' are passed on",
        )
    name = _signal_name(-code if code < 0 else code - _SIGNALLED)
    if code < 0:
        reason = f"was killed by {name}"
    elif name and code > _SIGNALLED:
        reason = f"ended with exit code {code} ({_SIGNALLED} + {name})"
    else:
        reason = f"ended with exit code {code}"
    return TaskFailedError.of("E209", f"{what} {reason}{said}", "read its output in the task's log")


def _once(
    step: RunProgram, frame: Frame, command: list[str], environment: dict[str, str]
) -> tuple[int, str]:
    arguments = ["bash", "-c", command[0]] if step.shell else command
    try:
        process = subprocess.Popen(  # noqa: S603 - running what the spec says is its purpose
            arguments,
            cwd=folder_of(frame, step.folder),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        raise EnvironmentFaultError.of(
            "E210",
            f"the program '{arguments[0]}' could not be started: {error.strerror or error}",
            "install it, or correct its path; it is looked for on PATH and in the spec's folder",
        ) from error

    last = ""

    def tell(line: str) -> None:
        nonlocal last
        last = line or last
        frame.run.emit(
            Logged(line, frame.task, frame.node.name, frame.instance, frame.epoch, step.path)
        )

    with process, frame.run.leash.holding(process.pid):
        code = follow(process, tell, frame.cancel)
    return code, last


def _handed(name: str, value: Value, scratch: str) -> str:
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        path = str(Path(scratch, f"{name}.npy"))
        np.save(path, value, allow_pickle=False)
        return path
    if isinstance(value, Counter):
        value = value.value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _read_results(prepared: _Prepared, frame: Frame) -> None:
    folder = folder_of(frame, prepared.step.folder)
    values = []
    for blob, path, member, level in prepared.results:
        place = Path(folder, path(frame))
        if not place.exists():
            raise TaskFailedError.of(
                "E211",
                f"the program did not write '{place}', the result for blob '{blob}'",
                "check the path; a relative one starts in the spec's folder",
            )
        values.append((level, blob, own(read_member(str(place), member))))
    for level, blob, value in values:
        getattr(frame, level)[blob] = value


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}" if number > 0 else ""
