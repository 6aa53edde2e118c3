"""Collects what is wrong with a job, so that all of it is told together. Raises nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin


class Place(NamedTuple):
    """Where something stands: its path in the spec, and its file, line and column."""

    path: str
    origin: Origin


class Faults:
    """Errors and warnings in the order they were found, each once.

    A net that is used a hundred times is checked a hundred times and has one fault.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, Origin | None], Fault] = {}

    def error(self, code: str, message: str, mend: str, place: Place) -> None:
        """Note an error."""
        self._add(Fault(code, message, mend, place.origin, place.path))

    def warn(self, code: str, message: str, mend: str, place: Place) -> None:
        """Note something that compiles, but is probably not what is meant."""
        self._add(Fault(code, message, mend, place.origin, place.path, "warning"))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Note faults that others found."""
        for fault in faults:
            self._add(fault)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Note the faults of a ``SpecError`` raised inside, and go on after the block."""
        try:
            yield
        except SpecError as error:
            self.extend(error.faults)

    def warnings(self) -> tuple[Fault, ...]:
        """The warnings, in their order."""
        return tuple(fault for fault in self._found.values() if fault.severity == "warning")

    def raise_if_any(self) -> None:
        """Raise all errors as one.

        Raises:
            SpecError: There is at least one error.
        """
        errors = [fault for fault in self._found.values() if fault.severity == "error"]
        if errors:
            raise SpecError(*errors)

    def _add(self, fault: Fault) -> None:
        where = fault.where
        # Without a line the path is all that tells two faults apart.
        key = (fault.code, fault.message + ("" if where and where.line else fault.path), where)
        self._found.setdefault(key, fault)
