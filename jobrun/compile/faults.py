"""Collect the faults that compilation finds in a job, to report all of them together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin, SpecError


class SpecPosition(NamedTuple):
    """A position in a spec: the path of the value, and its file, line and column."""

    path: str
    origin: Origin


class Located(Protocol):
    """What a fault can be about: a position in a spec, or a part of the graph that has one."""

    @property
    def path(self) -> str:
        """The path of the part, such as ``epoch/lloyd``."""
        ...

    @property
    def origin(self) -> Origin:
        """The file, line and column of the part."""
        ...


class Faults:
    """Errors and warnings in the order they were found, each once.

    A net that is used a hundred times is checked a hundred times and has one fault.

    Args:
        texts: The text of each file, by its name in places.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = texts or {}
        # Lines of each file, split once: a large spec may have a fault in each task.
        self._lines: dict[str, list[str]] = {}
        self._found: dict[tuple[str, str, Origin | None], Fault] = {}

    def error(self, code: Code, message: str, mend: str, where: Located, name: str = "") -> None:
        """Add an error to the compilation's faults, at a position or at a name within it."""
        origin = self._find_mention(where.origin, name) if name else where.origin
        self._add(Fault(code, message, mend, origin, where.path))

    def warn(self, code: Code, message: str, mend: str, where: Located) -> None:
        """Add a warning of a probable mistake to the faults; the job compiles nevertheless."""
        self._add(Fault(code, message, mend, where.origin, where.path, "warning"))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Add faults found elsewhere to those that this compilation has collected."""
        for fault in faults:
            self._add(fault)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Catch a ``SpecError`` of the block; add its faults to the compilation's."""
        try:
            yield
        except SpecError as error:
            self.extend(error.faults)

    def __len__(self) -> int:
        # Warnings count too.
        return len(self._found)

    def all(self) -> tuple[Fault, ...]:
        """Return all faults of a compilation, errors and warnings, in order of discovery."""
        return tuple(self._found.values())

    def warnings(self) -> tuple[Fault, ...]:
        """Return the warnings among the faults that compilation collected, in order."""
        return tuple(fault for fault in self._found.values() if fault.severity == "warning")

    def raise_if_any(self) -> None:
        """Raise one ``SpecError`` with all errors that compilation has collected, if any.

        Raises:
            SpecError: There is at least one error.
        """
        errors = [fault for fault in self._found.values() if fault.severity == "error"]
        if errors:
            raise SpecError(*errors)

    def _find_mention(self, origin: Origin, name: str) -> Origin:
        if origin.file not in self._lines:
            self._lines[origin.file] = self._texts.get(origin.file, "").splitlines()
        lines = self._lines[origin.file]
        if not 0 < origin.line <= len(lines):
            return origin
        start = origin.column - 1
        text = lines[origin.line - 1][start : start + origin.length]
        match = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
        if match is None:
            return origin
        column = origin.column + match.start()
        return Origin(origin.file, origin.line, column, len(name))

    def _add(self, fault: Fault) -> None:
        where = fault.where
        # Without a line only the path distinguishes two faults.
        key = (fault.code, fault.message + ("" if where and where.line else fault.path), where)
        self._found.setdefault(key, fault)
