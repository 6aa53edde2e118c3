"""Texts of a spec (log lines, messages, paths): from what is written to parts filled in later."""

from __future__ import annotations

import re

from jobrun.compile.expressions import parse_expression
from jobrun.compile.names import UNREADABLE, Params
from jobrun.compile.placeholders import Part, split_placeholders
from jobrun.compile.scalar import DEEPEST, Scalar
from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin
from jobrun.graph.expr import Builtin, Hole, Text

LONGEST_TEXT = 64 * 1024

# Python's format language, without its nested fields.
_FORMAT = re.compile(
    r"(?:.?[<>=^])?[-+ ]?z?#?0?(?:[0-9]{1,3})?[,_]?(?:\.[0-9]{1,3})?[bcdeEfFgGnosxX%]?", re.DOTALL
)
_LITERAL = re.compile(r"\$\$|\$\{[^{}]*\}?|\{\{|\}\}|\{|\}")
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_CONVERSION = re.compile(r"![rsa]$")


def parse_text(text: str, origin: Origin, path: str, params: Params, *, holes: bool) -> Text:
    """The parts of a text.

    ``${run.dir}``, ``${node}``, ``${epoch}`` and ``${instance}`` are filled in at run time,
    ``$$`` is a dollar. With ``holes``, ``{expr}`` and ``{expr:format}`` are filled in too,
    and ``{{`` and ``}}`` are braces.

    Raises:
        SpecError: All that is wrong with it: E108, E112, E113, and those of expressions.
    """
    if len(text) > LONGEST_TEXT:
        message = f"this text has {len(text)} characters, and {LONGEST_TEXT} are allowed"
        raise SpecError.of("E108", message, "write it to a file", where=origin, path=path)
    scalar = Scalar(text, origin, path)
    if not holes:
        return Text(tuple(split_placeholders(text, scalar, 0)))
    reader = _Reader(scalar, params)
    parts = reader.parts()
    if reader.faults:
        raise SpecError(*reader.faults)
    return Text(parts)


class _Reader:
    """Reads one text with holes."""

    def __init__(self, scalar: Scalar, params: Params) -> None:
        self._scalar = scalar
        self._params = params
        self.faults: list[Fault] = []

    def parts(self) -> tuple[str | Hole | Builtin, ...]:
        """All parts; literal ones that touch are one."""
        text = self._scalar.text
        found: list[str | Hole | Builtin] = []
        position = 0
        while True:
            match = _LITERAL.search(text, position)
            if match is None:
                found.append(text[position:])
                return _joined(found)
            found.append(text[position : match.start()])
            position = match.end()
            mark = match[0]
            if mark in ("{{", "}}"):
                found.append(mark[0])
            elif mark == "{":
                hole, position = self._hole(match.start())
                found.append(hole)
            elif mark == "}":
                self._fault("a '}' has no '{'", "write }} for a brace", match.start())
            else:
                found += self._placeholder(mark, match.start())

    def _placeholder(self, mark: str, at: int) -> list[Part]:
        try:
            return split_placeholders(mark, self._scalar, at)
        except SpecError as error:
            self.faults += error.faults
            return []

    def _hole(self, start: int) -> tuple[Hole, int]:
        """The hole that opens at ``start``, and where the text goes on."""
        text = self._scalar.text
        colon, end = _hole_ends(text, start + 1)
        if end is None:
            self._fault("a '{' is not closed", "close it with '}', or write {{ for a brace", start)
            return Hole(UNREADABLE), len(text)
        written = text[start + 1 : end if colon is None else colon]
        spec = "" if colon is None else text[colon + 1 : end]
        self._check_format(spec, end if colon is None else colon + 1)
        if not written.strip():
            self._fault("there is nothing between '{' and '}'", "write {{}} for braces", start)
            return Hole(UNREADABLE), end + 1
        if not self._check_written(written, start + 1):
            return Hole(UNREADABLE), end + 1
        origin = self._scalar.origin.inside(start + 1, max(1, len(written)))
        try:
            value = parse_expression(written, origin, self._scalar.path, self._params)
        except SpecError as error:
            self.faults += error.faults
            value = UNREADABLE
        return Hole(value, spec), end + 1

    def _check_written(self, written: str, at: int) -> bool:
        if _CONVERSION.search(written):
            self._fault("'!r' and its like are not part of the language", "leave it out", at)
            return False
        if written.rstrip().endswith("=") and not written.rstrip().endswith("=="):
            name = written.rstrip()[:-1].strip()
            self._fault("'=' is not part of a hole", f"write {name} {{{name}}}", at)
            return False
        return True

    def _check_format(self, spec: str, at: int) -> None:
        if not _FORMAT.fullmatch(spec):
            mend = "write for example {x:.3f}, {x:.2e}, {x:>8} or {x:,}"
            self._fault(f"'{spec}' is no format", mend, at, len(spec))

    def _fault(self, message: str, mend: str, at: int, length: int = 1) -> None:
        self.faults.append(self._scalar.fault("E113", message, mend, at, max(1, length)))


def _hole_ends(text: str, start: int) -> tuple[int | None, int | None]:
    """Where the format of a hole begins (at its colon) and where the hole ends.

    Colons and braces inside brackets or quotes belong to the expression.
    """
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character in "'\"":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                return None, None
            position = quoted.end()
            continue
        if character in "([{":
            depth += 1
        elif character == "}" and depth == 0:
            return None, position
        elif character in ")]}":
            depth -= 1
        elif character == ":" and depth == 0:
            return position, _format_end(text, position)
        if abs(depth) > DEEPEST:
            return None, None
        position += 1
    return None, None


def _format_end(text: str, position: int) -> int | None:
    """The brace that ends a format; fields inside it are refused, but belong to it."""
    depth = 0
    for at in range(position, len(text)):
        if text[at] == "}" and depth == 0:
            return at
        depth += (text[at] == "{") - (text[at] == "}")
    return None


def _joined(parts: list[str | Hole | Builtin]) -> tuple[str | Hole | Builtin, ...]:
    joined: list[str | Hole | Builtin] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)
