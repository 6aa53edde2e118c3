"""Several errors of one group run as one, with all their faults."""

from __future__ import annotations

from collections.abc import Sequence

from jobrun.core.errors import Fault, JobrunError


def combined(errors: Sequence[BaseException], tasks: Sequence[str] = ()) -> BaseException:
    """The first error, with what the others say.

    The first decides the class, and thereby the exit code. The others follow in an order
    that does not depend on threads. An error that is no ``JobrunError`` is a defect, or an
    interrupt, and goes before all others.

    Args:
        errors: At least one, in the order of their happening.
        tasks: For each error the task it is of, if that may be tried again, else "".
    """
    whole = _combined(errors)
    if isinstance(whole, JobrunError):
        whole.tasks = tuple(sorted(set(tasks))) if all(tasks) else ()
    return whole


def _combined(errors: Sequence[BaseException]) -> BaseException:
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
