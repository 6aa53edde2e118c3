"""Execute the ``run`` step: run an external program, fed with blobs, that dies with its step.

A ``state_dir`` of the program is state as blobs are, in an array of bytes (``state_directory``).
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from msgspec import Struct

from jobrun.core.child_process import signal_group
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import Logged, Noted
from jobrun.core.hash_seed import VARIABLE
from jobrun.core.system_calls import has_ended
from jobrun.core.text.big_integers import integer_hex, is_long, key_text
from jobrun.core.text.units import size
from jobrun.formats.load_save import read_member
from jobrun.graph.expressions import Expr
from jobrun.graph.steps import RunProgram
from jobrun.runtime.codegen.coercion import as_own_value
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.frame import LEVELS, Frame
from jobrun.runtime.context.imported_code import IMPORTED_CODE
from jobrun.runtime.steps.data_files import require_run_directory
from jobrun.runtime.steps.state_directory import pack_directory, restore_directory
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.kinds.counter import Counter

Getter = Callable[[Frame], Any]

INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
# sysexits.h EX_TEMPFAIL: the program wants to be called again.
CALL_AGAIN = 75
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_SIGNALLED = 128
# MAX_ARG_STRLEN of Linux, minus the length of the variable's name.
_LONGEST = 128 * 1024 - 300
_MOST_DEPTH = 100
_ARRAY = "make an array of it, array(...), which a program gets as the path of an .npy file"


class _Prepared(Struct, frozen=True):
    step: RunProgram
    command: list[Getter]
    values: list[tuple[str, Getter]]
    results: list[tuple[str, Getter, str, str]]
    state_dir_level: str = ""


def program_action(
    step: RunProgram, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """Build the function of a ``run`` step, which runs an external program."""
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
            _store_state_dir(prepared, frame)

    return run


def _run(prepared: _Prepared, frame: Frame, scratch: str) -> None:
    command = [text(frame) for text in prepared.command]
    values = {name: get(frame) for name, get in prepared.values}
    environment = (
        build_environment(prepared.step, frame, values, scratch) | frame.run.reaper.environment()
    )
    if prepared.step.state_dir:
        folder = state_dir_path(prepared.step, frame)
        require_run_directory(frame, str(folder))
        restore_directory(
            getattr(frame, prepared.state_dir_level)[prepared.step.folders[0]], folder
        )
        environment["JOBRUN_STATE_DIR"] = str(folder)
    base = frame.resolve_folder(prepared.step.folder)
    for word in (word for text in command for word in text.split()):
        IMPORTED_CODE.check_script(os.path.join(base, word.strip("'\"")))  # noqa: PTH118
    while True:
        frame.cancel.check()
        code, last = _once(prepared.step, frame, command, environment)
        if code != CALL_AGAIN:
            break
    frame.cancel.check()
    if code != 0:
        raise explain_exit_code(command[0], code, last, shell=prepared.step.shell)


def _store_state_dir(prepared: _Prepared, frame: Frame) -> None:
    """Store the program's ``state_dir`` as a blob; report its size where that is news."""
    step, blobs = prepared.step, getattr(frame, prepared.state_dir_level)
    last = blobs[step.folders[0]]
    content = pack_directory(
        state_dir_path(step, frame), last, most_bytes=step.state_dir_most_bytes
    )
    blobs[step.folders[0]] = content
    if content.size and not last.size:
        limit = (
            f" (max_size {size(step.state_dir_most_bytes)})" if step.state_dir_most_bytes else ""
        )
        words = f"the 'state_dir' {step.state_dir} of task {frame.task} holds {size(content.size)}"
        frame.run.emit(Noted(f"{words}{limit}; each save stores as much"))


def build_environment(
    step: RunProgram, frame: Frame, values: Mapping[str, Value], scratch: str
) -> dict[str, str]:
    """Build the environment for a program of a ``run`` step; arrays become files in ``scratch``."""
    variables = {
        "JOBRUN_EPOCH": str(frame.epoch),
        "JOBRUN_INSTANCE": str(frame.instance),
        "JOBRUN_INSTANCES": str(frame.instances),
        "JOBRUN_NODE": frame.node.name,
        "JOBRUN_RUN_PATH": frame.run.run_dir,
        "JOBRUN_SEED": str(frame.run.seed),
        "JOBRUN_TASK": frame.task,
    }
    # The last one is PYTHONHASHSEED: a Python program then iterates over sets as this process does.
    for name in (*INHERITED, *step.env, VARIABLE):
        if name in os.environ:
            variables[name] = os.environ[name]
    for name, value in values.items():
        variables[f"JOBRUN_{name.upper()}"] = _variable_text(name, value, scratch)
    return variables


def explain_exit_code(program: str, code: int, last: str, *, shell: bool) -> TaskFailedError:
    """Build the fault for a ``run`` program's exit code, quoting its last output ``last``.

    Raises:
        EnvironmentFaultError: E210, if it did not even start.
    """
    subject = "the command line" if shell else f"the program '{program}'"
    last_line = f"; its last line was: {last}" if last else ""
    if code in {_NOT_FOUND, _NOT_EXECUTABLE}:
        reason = "was not found" if code == _NOT_FOUND else "is not executable"
        raise EnvironmentFaultError.of(
            "E210",
            f"{subject} {reason} (exit code {code}){last_line}",
            "install it, or correct its path; only PATH and the variables in 'env' are passed on",
        )
    name = _signal_name(-code if code < 0 else code - _SIGNALLED)
    if code < 0:
        reason = f"was killed by {name}"
    elif name and code > _SIGNALLED:
        reason = f"ended with exit code {code} ({_SIGNALLED} + {name})"
    else:
        reason = f"ended with exit code {code}"
    return TaskFailedError.of(
        "E209", f"{subject} {reason}{last_line}", "read its output in the task's log"
    )


def _once(
    step: RunProgram, frame: Frame, command: list[str], environment: dict[str, str]
) -> tuple[int, str]:
    arguments = ["bash", "-c", command[0]] if step.shell else command
    try:
        process = subprocess.Popen(  # noqa: S603 - running what the spec says is its purpose
            arguments,
            cwd=frame.resolve_folder(step.folder),
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

    with process, frame.run.reaper.watching(process.pid):
        code = follow_output(process, tell, frame.cancel)
    return code, last


def _variable_text(name: str, value: Value, scratch: str) -> str:
    """Convert a blob's value to the text of the environment variable that a program gets.

    Raises:
        TaskFailedError: E520, the value has no form as text.
    """
    if isinstance(value, np.ndarray):
        path = str(Path(scratch, f"{name}.npy"))
        np.save(path, value, allow_pickle=False)
        return path
    if isinstance(value, Counter):
        value = value.value
    if isinstance(value, str):
        text = str(value)
    elif isinstance(value, np.generic) and value.dtype.kind not in "OSV":
        text = _number_text(value)
    elif type(value) in (float, complex):
        text = repr(value)
    else:
        _require_json(value, (name,))
        text = _json(value)
    try:
        size_bytes = len(os.fsencode(text))
    except UnicodeEncodeError:
        _refuse((name,), "a text that is not valid Unicode")
    if "\0" in text:
        _refuse((name,), "a text with a NUL character")
    if size_bytes > _LONGEST:
        raise TaskFailedError.of(
            "E520",
            f"the value of '{name}' is a text of {len(text)} characters, and the system hands over "
            f"at most {_LONGEST} bytes in a variable",
            f"write it to a file with a 'save' step, and hand over its path; or {_ARRAY}",
        )
    return text


def _number_text(value: np.generic) -> str:
    number = value.item()
    if isinstance(number, bool):
        return "true" if number else "false"
    # ``item`` loses the unit of nanoseconds, and Python has no type for a long double.
    return (
        repr(number)
        if type(number) in (int, float, complex) and value.dtype.kind not in "mM"
        else str(value)
    )


def _require_json(value: Any, path: tuple[str, ...]) -> None:
    """Refuse a value for a program that JSON cannot represent as it is.

    Raises:
        TaskFailedError: E520.
    """
    kind = type(value)
    if len(path) > _MOST_DEPTH:
        _refuse(path[:1], f"a container more than {_MOST_DEPTH} deep")
    if kind in (list, tuple):
        for at, item in enumerate(value):
            _require_json(item, (*path, str(at)))
        return
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                _refuse(path, f"a dict with the key {key_text(key)[:40]}, which is no text")
            _require_json(item, (*path, key))
        return
    if kind is float and not math.isfinite(value):
        _refuse(path, f"the number {value}, for which JSON has no word")
    if kind not in (str, int, bool, float, type(None)):
        _refuse(path, describe(value))


def _refuse(path: tuple[str, ...], description: str) -> NoReturn:
    name, path_text = path[0], "/".join(path)
    raise TaskFailedError.of(
        "E520",
        f"'{name}' has a value that cannot be passed to a program: {description}, at '{path_text}'",
        f"hand it over as a number, a text, or a list or dict of these; or {_ARRAY}",
    )


def _json(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return integer_hex(value) if is_long(value) else str(value)
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise TaskFailedError.of(
            "E520",
            "a list or a dict with an integer of more than 4300 digits has no text as JSON",
            "hand over the integer by itself, or as a text",
        ) from error


def _read_results(prepared: _Prepared, frame: Frame) -> None:
    folder = frame.resolve_folder(prepared.step.folder)
    values = []
    for blob, path, member, level in prepared.results:
        file = Path(folder, path(frame))
        if not file.exists():
            raise TaskFailedError.of(
                "E211",
                f"the program did not write '{file}', the result for blob '{blob}'",
                "check the path; a relative one starts in the spec's folder",
            )
        values.append((level, blob, as_own_value(read_member(str(file), member))))
    for level, blob, value in values:
        getattr(frame, level)[blob] = value


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}" if number > 0 else ""


_POLL_S = 0.05
_GRACE_S = 2.0
_CHUNK_BYTES = 1 << 16
# A program that has ended can have left at most one full pipe.
_LAST_CHUNKS = 64
# A line longer than this is passed on in parts.
_LONGEST_LINE = 1 << 16


def follow_output(
    process: subprocess.Popen[bytes], tell: Callable[[str], None], cancel: CancelScope
) -> int:
    """Pass each line of a program's output to ``tell`` until it ends; return its exit code.

    The program is the leader of a process group. When it has ended, so does what it left
    in its group. On cancel the whole group gets SIGTERM, and SIGKILL two seconds later; or
    at once, if the scope says so.
    """
    lines = LineSplitter(tell)
    deadline = 0.0
    try:
        with selectors.DefaultSelector() as selector:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            pipe = process.stdout.fileno()
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)
            # The pipe may stay open in a background process, or be closed early.
            while not has_ended(process.pid, process.poll):
                if selector.select(_POLL_S) and not _read(pipe, lines):
                    selector.unregister(pipe)
                deadline = _end_if_cancelled(process, cancel, deadline)
            signal_group(process, signal.SIGKILL)
            for _ in range(_LAST_CHUNKS):
                if not selector.select(0) or not _read(pipe, lines):
                    break
    finally:
        # Signal before the leader is reaped: until then no other process can get its PID.
        signal_group(process, signal.SIGKILL)
        process.wait()
        lines.end()
    return process.returncode


class LineSplitter:
    """Splits a program's output into lines at newlines and carriage returns (progress bars)."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Split the next bytes of a running program's output into lines."""
        whole = (self._rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = whole.split(b"\n")
        for line in lines:
            self._say(line)
        while len(self._rest) > _LONGEST_LINE:
            self._say(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def end(self) -> None:
        """Emit the last line of an external program's output, if it does not end in a newline."""
        if self._rest:
            self._say(self._rest)
            self._rest = b""

    def _say(self, line: bytes) -> None:
        self._tell(line.decode("utf-8", errors="replace"))


def _read(pipe: int, lines: LineSplitter) -> bool:
    """Read a piece of output of a ``run`` step's program; return False at the output's end."""
    data = os.read(pipe, _CHUNK_BYTES)
    lines.feed(data)
    return bool(data)


def _end_if_cancelled(
    process: subprocess.Popen[bytes], cancel: CancelScope, deadline: float
) -> float:
    """Terminate a program if its step is cancelled; kill it if it outlives its grace period."""
    if not cancel.cancelled:
        return deadline
    if cancel.at_once:
        signal_group(process, signal.SIGKILL)
        return deadline
    if not deadline:
        signal_group(process, signal.SIGTERM)
        return time.monotonic() + _GRACE_S
    if time.monotonic() > deadline:
        signal_group(process, signal.SIGKILL)
    return deadline


def state_dir_path(step: RunProgram, frame: Frame) -> Path:
    """Return the path of a program's ``state_dir``, inside the run's directory."""
    return Path(frame.run.run_dir, "state_dirs", frame.node.name, step.state_dir).absolute()
