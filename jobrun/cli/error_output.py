"""Print the errors that end a command on stderr, and write crash reports."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from jobrun.cli.formatting import wrap_line
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault
from jobrun.core.text.fault_text import as_item, excerpt, headline, render_github
from jobrun.core.text.patterns import lazy_pattern
from jobrun.version import __version__

_MOST_BYTES = 16 << 20
# Indents all but the first line of a fault.
_INDENT = " " * 6

_MEMORY = "raise the limits of memory and processes (ulimit -v, ulimit -u), or use less"
# Error numbers of the operating system that are no bugs of jobrun.
_LIMITS = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE,
    errno.ENOMEM, errno.ENOSPC, errno.EPERM, errno.EROFS, errno.ESTALE, errno.EAGAIN,
    errno.ENXIO, errno.ENODEV, errno.EREMOTEIO, errno.ENOTCONN,
}  # fmt: skip

# Whose versions a crash report names.
_LIBRARIES = ("click", "h5py", "numpy", "pydantic", "pyyaml", "rich")

# Click's messages about a text in place of a number.
_NO_INTEGER = lazy_pattern(r"is not a valid integer(?: range)?\b")
_NO_NUMBER = lazy_pattern(r"is not a valid float(?: range)?\b")


def print_faults(faults: Sequence[Fault], shell: Shell) -> None:
    """Print each error (``Fault``) of a command on stderr, with the line of the spec.

    Args:
        faults: In the order to be shown.
        shell: Where to; it knows the texts that are not in files.
    """
    texts = dict(shell.texts)
    for fault in faults:
        if shell.log_format == "json":
            import json  # noqa: PLC0415 - for programs only

            shell.say(json.dumps({"event": "Fault", **as_item(fault)}))
            continue
        if fault.where is not None and fault.where.line and fault.where.file not in texts:
            texts[fault.where.file] = _text(fault.where.file)
        shell.say(*_render(fault, texts, shell))
        if shell.log_format == "github":
            shell.say(render_github(fault))


def _render(fault: Fault, files: Mapping[str, str], shell: Shell) -> list[str]:
    """Render an error (``Fault``) as lines for stderr, in colour on a terminal."""
    colour = "red" if fault.severity == "error" else "yellow"
    kind, bracket, message = headline(fault).partition("]")
    width, indent = shell.message_width, len(_INDENT)
    first, *others = wrap_line(kind + bracket + message, width, indent)
    painted = shell.paint(kind + bracket, "bold", colour)
    lines = [first.replace(kind + bracket, painted, 1), *others]
    shown, mend = excerpt(fault, files), fault.mend
    if shown is not None:
        carets = shell.paint("^" * shown.carets, "bold", colour)
        lines.append(shell.paint(f"{shown.number:>5} | ", "dim") + shown.text)
        marks = f"{shell.paint(_INDENT + '| ', 'dim')}{' ' * shown.indent}{carets}"
        if indent + 2 + shown.indent + shown.carets + 1 + len(mend) <= width:
            marks, mend = f"{marks} {mend}", ""
        lines.append(marks)
    if mend:
        first, *others = wrap_line(f"{_INDENT}= {mend}", width, indent + 2)
        lines += [f"{shell.paint(first[: indent + 2], 'dim')}{first[indent + 2 :]}", *others]
    return [line.rstrip() for line in lines]


def _text(name: str) -> str:
    try:
        path = Path(name)
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def fault_from_click(error: click.UsageError) -> Fault:
    """Convert a usage error of click to an error message (``Fault``)."""
    command = error.ctx.command_path if error.ctx is not None else "jobrun"
    mend = f"see '{command} --help'"
    message = _sentence(error.format_message())
    message = _NO_NUMBER.sub("is not a number", _NO_INTEGER.sub("is not a whole number", message))
    if "unexpected extra argument" in message and "=" in message:
        mend = f"a param or key of the spec is set with --set NAME=VALUE; {mend}"
    match error:
        case click.MissingParameter():
            return Fault("E402", message, mend)
        case click.BadParameter():
            return Fault("E403", message, mend)
        case _:
            return Fault("E404", message, mend)


def _sentence(text: str) -> str:
    flat = " ".join(text.split()).rstrip(".")
    return flat[:1].lower() + flat[1:]


def environment_fault(error: Exception) -> Fault | None:
    """Make an error message from an exception about memory, disk or libraries; else None."""
    match error:
        case RuntimeError() if "can't start new thread" in str(error):
            return Fault("E411", "cannot start another thread", _MEMORY)
        case MemoryError():
            return Fault("E411", "out of memory", "raise the limit (ulimit -v), or use less")
        case ImportError() if not (error.name or "").startswith("jobrun"):
            return Fault(
                "E412",
                f"a library cannot be loaded: {error}",
                "reinstall jobrun; if there is a memory limit (ulimit -v), raise it",
            )
        case FileNotFoundError() if not _has_working_directory():
            return Fault(
                "E415", "the working directory no longer exists", "change to an existing directory"
            )
        case OSError() if error.errno in _LIMITS:
            from jobrun.core.files.disk import mend_of  # noqa: PLC0415 - seldom

            filename = f": {error.filename}" if error.filename else ""
            mend = mend_of(error, "check the limits (ulimit -a) and the permissions")
            return Fault("E413", f"system call failed: {error.strerror}{filename}", mend)
        case _:
            return None


def _has_working_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same
    except FileNotFoundError:
        return False
    return True


def write_report(trace: str, arguments: Sequence[str]) -> str | None:
    """Write a crash report with the error's traceback and the command line; return its path.

    Returns:
        Its path, or None when it cannot be written.
    """
    import platform  # noqa: PLC0415 - after a crash only
    import shlex  # noqa: PLC0415
    import sys  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    text = "\n".join(
        [
            f"jobrun {__version__}, Python {platform.python_version()}, {platform.platform()}",
            ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES),
            f"command: jobrun {shlex.join(arguments)}",
            f"executable: {sys.executable}",
            "",
            trace,
        ]
    )
    try:
        number, path = tempfile.mkstemp(prefix="jobrun-crash-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        return None
    return path


def _version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - after a crash

    try:
        return version(library)
    except PackageNotFoundError:
        return "missing"
