"""Define the errors that end a command, the faults they are made of, and places in files.

Only what a user can meet and mend is raised from here. Anything else is a defect of
jobrun and falls through with its traceback (the command line turns it into exit code 70).
The codes are those of a shell tool: 75 is EX_TEMPFAIL of sysexits.h, "call me again".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from msgspec import Struct

from jobrun.core.codes import Code


class Fault(Struct, frozen=True):
    """One thing that is wrong: its place, what is wrong, and how to fix it.

    Attributes:
        code: Key of the catalogue that ``jobrun explain`` prints, such as ``E021``.
        message: What is wrong, one plain sentence without a full stop.
        mend: What to do about it, one plain sentence; may be empty only where the
            message says it already.
        where: The place in the spec, if it has one.
        path: The thing's path in the spec, such as ``stop[0].wen``.
        severity: A warning does not fail a command.
    """

    code: Code
    message: str
    mend: str = ""
    where: Origin | None = None
    path: str = ""
    severity: Literal["error", "warning"] = "error"


class JobrunError(Exception):
    """A failure that the user can understand and fix. ``exit_code`` is what the process returns.

    Attributes:
        tasks: For a failed group run: the names of all tasks that failed, sorted, if every
            failure was one of a task that declares ``retry``; else empty.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, *faults: Fault) -> None:
        self.faults: tuple[Fault, ...] = faults
        self.tasks: tuple[str, ...] = ()
        super().__init__("; ".join(_line(fault) for fault in faults))

    @classmethod
    def of(
        cls,
        code: Code,
        message: str,
        mend: str = "",
        *,
        where: Origin | None = None,
        path: str = "",
    ) -> Self:
        """Build a ``JobrunError`` with a single fault: its code, message and fix."""
        return cls(Fault(code, message, mend, where, path))


class TaskFailedError(JobrunError):
    """A step, an ``assert``, ``fail_if`` or a timeout failed; the epoch was dropped."""

    exit_code = 1


class UsageError(JobrunError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


class SpecError(JobrunError):
    """The spec, or a value given to it, is not valid or does not compile."""

    exit_code = 3


class CheckpointError(JobrunError):
    """There is no usable checkpoint, it is damaged, or the epoch does not exist."""

    exit_code = 4


class DriftError(JobrunError):
    """Refused, because what would be resumed is not what was run: code, data or spec changed."""

    exit_code = 5


class LockedError(JobrunError):
    """Refused, because a live runner holds the lock of the run."""

    exit_code = 6


class EnvironmentFaultError(JobrunError):
    """Disk, permissions, an import, or a host failed; nothing that was saved is lost."""

    exit_code = 7


class ProofError(JobrunError):
    """A proof or a verification failed."""

    exit_code = 8


class ExpectationError(JobrunError):
    """The job finished, but an ``expect`` does not hold."""

    exit_code = 9


class StoppedEarlyError(JobrunError):
    """Stopped on request before the job's end; ``resume`` continues it."""

    exit_code = 75


class InterruptedRunError(JobrunError):
    """Stopped by Ctrl-C; ``resume`` continues it."""

    exit_code = 130


def _line(fault: Fault) -> str:
    position = f"{fault.where}  " if fault.where else ""
    path = f"{fault.path}: " if fault.path else ""
    mend = f" ({fault.mend})" if fault.mend else ""
    return f"{fault.severity}[{fault.code}] {position}{path}{fault.message}{mend}"


def errors_only(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the errors among ``Fault`` objects; leave out those that are warnings."""
    return tuple(fault for fault in faults if fault.severity == "error")


class Origin(Struct, frozen=True):
    """One place in a spec file, or in an override on the command line: file, line, column.

    Attributes:
        file: The path as the user wrote it, or an override's name such as ``--set #2``.
        line: Counted from 1; 0 when the text is not a file (an override).
        column: Counted from 1, in characters.
        length: How many characters a caret line should underline (at least 1).
        text_column: For a scalar, the column of its first character of text (behind an
            opening quote), so that a fault inside an expression can be pointed at;
            0 when columns inside the text do not map to columns of the file
            (escapes, folded or block scalars).
    """

    file: str
    line: int = 0
    column: int = 0
    length: int = 1
    text_column: int = 0

    def __str__(self) -> str:
        if self.line == 0:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def inside(self, offset: int, length: int = 1) -> Origin:
        """Return the position (``Origin``) of an error that is ``offset`` characters into a text.

        Falls back to the whole scalar where columns do not map.
        """
        if self.line == 0 or self.text_column == 0:
            return self
        column = self.text_column + offset
        return Origin(self.file, self.line, column, max(1, length), column)
