"""Collects what is wrong with a job, so that all of it is told together. Raises nothing itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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

    Args:
        texts: The text of each file, by the name it has in places.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = texts or {}
        self._found: dict[tuple[str, str, Origin | None], Fault] = {}

    def error(self, code: str, message: str, mend: str, place: Place, name: str = "") -> None:
        """Note an error; with ``name``, at its first mention inside the place."""
        where = self._mention(place.origin, name) if name else place.origin
        self._add(Fault(code, message, mend, where, place.path))

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

    def __len__(self) -> int:
        # Warnings count too.
        return len(self._found)

    def all(self) -> tuple[Fault, ...]:
        """Errors and warnings, in their order."""
        return tuple(self._found.values())

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

    def _mention(self, origin: Origin, name: str) -> Origin:
        lines = self._texts.get(origin.file, "").splitlines()
        if not 0 < origin.line <= len(lines):
            return origin
        start = origin.column - 1
        text = lines[origin.line - 1][start : start + origin.length]
        found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
        if found is None:
            return origin
        column = origin.column + found.start()
        return Origin(origin.file, origin.line, column, len(name))

    def _add(self, fault: Fault) -> None:
        where = fault.where
        # Without a line the path is all that tells two faults apart.
        key = (fault.code, fault.message + ("" if where and where.line else fault.path), where)
        self._found.setdefault(key, fault)
