"""Parse texts with holes (log lines, messages, paths) into literals and expressions."""

from __future__ import annotations

import re

from jobrun.compile.expressions.parse import parse_expression
from jobrun.compile.expressions.python_ast import MAX_DEPTH, Part, SourceText, split_placeholders
from jobrun.compile.expressions.translate import UNREADABLE, Params
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Builtin, Hole, Text

MAX_TEXT_LENGTH = 64 * 1024

# Python's format language, without its nested fields.
_FORMAT = lazy_pattern(
    r"(?:.?[<>=^])?[-+ ]?z?#?0?(?:[0-9]{1,3})?[,_]?(?:\.[0-9]{1,3})?[bcdeEfFgGnosxX%]?", re.DOTALL
)
_LITERAL = lazy_pattern(r"\$\$|\$\{[^{}]*\}?|\{\{|\}\}|\{|\}")
_QUOTED = lazy_pattern(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_CONVERSION = lazy_pattern(r"![rsa]$")


def parse_text(text: str, origin: Origin, path: str, params: Params, *, holes: bool) -> Text:
    """Parse a text template of the spec: literals, ``{holes}``, and builtins as ``${run.dir}``.

    ``${run.dir}``, ``${node}``, ``${epoch}`` and ``${instance}`` are filled in at run time,
    ``$$`` is a dollar. With ``holes``, ``{expr}`` and ``{expr:format}`` are filled in too,
    and ``{{`` and ``}}`` are braces.

    Raises:
        SpecError: It is not valid; with all faults: E108, E112, E113, and those of expressions.
    """
    if len(text) > MAX_TEXT_LENGTH:
        message = f"this text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are allowed"
        raise SpecError.of("E108", message, "write it to a file", where=origin, path=path)
    scalar = SourceText(text, origin, path)
    if not holes:
        return Text(tuple(split_placeholders(text, scalar, 0)))
    reader = _TextParser(scalar, params)
    parts = reader.parts()
    if reader.faults:
        raise SpecError(*reader.faults)
    return Text(parts)


class _TextParser:
    """Parses one text with holes."""

    def __init__(self, scalar: SourceText, params: Params) -> None:
        self._scalar = scalar
        self._params = params
        self.faults: list[Fault] = []

    def parts(self) -> tuple[str | Hole | Builtin, ...]:
        """Parse all parts of a text template: literals, ``{holes}``, builtins (``${run.dir}``)."""
        text = self._scalar.text
        found: list[str | Hole | Builtin] = []
        position = 0
        while True:
            match = _LITERAL.search(text, position)
            if match is None:
                found.append(text[position:])
                return _merge_literals(found)
            found.append(text[position : match.start()])
            position = match.end()
            mark = match[0]
            if mark in ("{{", "}}"):
                found.append(mark[0])
            elif mark == "{":
                hole, position = self._parse_hole(match.start())
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

    def _parse_hole(self, start: int) -> tuple[Hole, int]:
        """Parse one hole ``{expr:format}`` of a text; return the hole, and where it ends."""
        text = self._scalar.text
        colon, end = _find_hole_end(text, start + 1)
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
            self._fault("conversions such as '!r' are not supported", "remove it", at)
            return False
        if written.rstrip().endswith("=") and not written.rstrip().endswith("=="):
            name = written.rstrip()[:-1].strip()
            self._fault("'=' is not supported in {…}", f"write {name} {{{name}}}", at)
            return False
        return True

    def _check_format(self, spec: str, at: int) -> None:
        if not _FORMAT.fullmatch(spec):
            mend = "write for example {x:.3f}, {x:.2e}, {x:>8} or {x:,}"
            self._fault(f"'{spec}' is not a valid format", mend, at, len(spec))

    def _fault(self, message: str, mend: str, at: int, length: int = 1) -> None:
        self.faults.append(self._scalar.fault("E113", message, mend, at, max(1, length)))


def _find_hole_end(text: str, start: int) -> tuple[int | None, int | None]:
    """Find where a hole ``{expr:format}`` of a text with holes ends, and where its colon is.

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
            return position, _find_format_end(text, position)
        if abs(depth) > MAX_DEPTH:
            return None, None
        position += 1
    return None, None


def _find_format_end(text: str, position: int) -> int | None:
    """Find the brace that ends the format in a text's hole ``{expr:format}``, or None."""
    depth = 0
    for at in range(position, len(text)):
        if text[at] == "}" and depth == 0:
            return at
        depth += (text[at] == "{") - (text[at] == "}")
    return None


def _merge_literals(parts: list[str | Hole | Builtin]) -> tuple[str | Hole | Builtin, ...]:
    joined: list[str | Hole | Builtin] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)
