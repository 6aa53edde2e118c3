"""Define the errors of a group run, and merge several of them into one."""

from __future__ import annotations

from collections.abc import Sequence

from jobrun.core.errors import EnvironmentFaultError, Fault, JobrunError, TaskFailedError


def merge_errors(errors: Sequence[BaseException], tasks: Sequence[str] = ()) -> BaseException:
    """Merge a group run's errors: the first one, with the faults of the others as notes.

    The first decides the class, and thereby the exit code. The others follow in an order
    that does not depend on threads. An error that is no ``JobrunError`` is a defect, or an
    interrupt, and goes before all others.

    Args:
        errors: At least one, in the order of their happening.
        tasks: For each error the task it is of, if that may be tried again, else "".
    """
    whole = _merge(errors)
    if isinstance(whole, JobrunError):
        whole.tasks = tuple(sorted(set(tasks))) if all(tasks) else ()
    return whole


def _merge(errors: Sequence[BaseException]) -> BaseException:
    first = next((one for one in errors if not isinstance(one, JobrunError)), errors[0])
    others = sorted((one for one in errors if one is not first), key=str)
    if not isinstance(first, JobrunError):
        for other in others:
            first.add_note(f"also: {other}")
        return first
    if not others:
        return first
    faults: dict[Fault, None] = dict.fromkeys(first.faults)
    for other in others:
        faults.update(dict.fromkeys(getattr(other, "faults", ())))
    whole: JobrunError = type(first)(*faults)
    whole.__cause__ = first.__cause__ or first
    for one in (first, *others):
        for note in getattr(one, "__notes__", ()):
            whole.add_note(note)
    return whole


class NodeLostError(EnvironmentFaultError):
    """The process of a node has ended. The other nodes live; their workspaces are undefined.

    Attributes:
        node: Its name.
    """

    node: str = ""

    @classmethod
    def of_node(cls, node: str, how: str) -> NodeLostError:
        """Build the error for a node that a group lost as its process ended, with the reason."""
        error = cls.of(
            "E395",
            f"node '{node}' is lost: its process {how}",
            "see what ended it: lack of memory (dmesg | grep -i oom), a limit (ulimit -t), a "
            "crash, or kill; resume continues from the last saved epoch",
        )
        error.node = node
        return error


class GroupCancelledError(Exception):
    """``request_stop`` ended the group. Not a failure: the caller who asked for it handles it."""


class TasksStuckError(TaskFailedError):
    """Tasks did not end within the time allowed after a failure or a stop request.

    Their threads may still run, so nothing that they can reach may be used or saved any
    more: the caller has to end the process.
    """
