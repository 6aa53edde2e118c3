"""Hold the source text of an expression: find positions in it, split it at placeholders."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.names import nearest
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Builtin

Part = str | Builtin
# What a text is filled with: a builtin, or an expression.
_Filled = TypeVar("_Filled")

# Placeholder → builtin. The loader has replaced all others already.
RUN_TIME: dict[str, str] = {
    "run.dir": "run.dir", "node": "node.name", "epoch": "epoch", "instance": "instance",
}  # fmt: skip
_PLACEHOLDER = lazy_pattern(r"\$\$|\$\{([^{}]*)(\}?)")


class SourceText(Struct, frozen=True):
    """The text of one expression or statement of a spec, with its position.

    Attributes:
        text: The text.
        origin: Its position in the spec.
        path: Its path in the spec, for faults.
    """

    text: str
    origin: Origin
    path: str

    def fault(
        self, code: Code, message: str, mend: str, at: int | None = None, length: int = 1
    ) -> Fault:
        """Build a fault about this source text, at an offset or about all of it."""
        where = self.origin if at is None else self.origin.inside(at, length)
        return Fault(code, message, mend, where, self.path)

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the offset in this source text at which a node of Python's ``ast`` begins."""
        start = len(self.text) - len(self.text.lstrip())
        if node.lineno != 1:
            return start
        return start + self._characters(node.col_offset)

    def length(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the length in this source text of a node of Python's ``ast``."""
        end, end_line = node.end_col_offset, node.end_lineno
        if node.lineno != 1 or end is None or end_line != 1:
            return 1
        return self._characters(end) - self._characters(node.col_offset)

    def written(self, node: ast.expr | ast.keyword) -> str:
        """Return the source text of a node of Python's ``ast``; "" if not on its first line."""
        if node.lineno != 1 or node.end_lineno != 1:
            return ""
        encoded = self.text.strip().encode("utf-8", "replace")
        return encoded[node.col_offset : node.end_col_offset].decode("utf-8", "replace")

    def _characters(self, byte_offset: int) -> int:
        # Python counts columns in bytes of UTF-8.
        if self.text.isascii():
            return byte_offset
        encoded = self.text.lstrip().encode("utf-8", "replace")
        return len(encoded[:byte_offset].decode("utf-8", "ignore"))


class Findings:
    """The faults of one source text, collected while it is translated."""

    def __init__(self, scalar: SourceText) -> None:
        self.scalar = scalar
        self.faults: list[Fault] = []

    def add(
        self, code: Code, message: str, mend: str, node: ast.expr | ast.stmt | ast.keyword | None
    ) -> None:
        """Add a fault to those of a source text, at the position of a Python ``ast`` node."""
        at = None if node is None else self.scalar.at(node)
        length = 1 if node is None else self.scalar.length(node)
        self.faults.append(self.scalar.fault(code, message, mend, at, length))

    def raise_if_any(self) -> None:
        """Raise one ``SpecError`` with all faults found in the source text, if any.

        Raises:
            SpecError: There is at least one.
        """
        if self.faults:
            raise SpecError(*self.faults)


def split_placeholders(text: str, scalar: SourceText, at: int | None) -> list[Part]:
    """Split a source text at its placeholders, such as ``${run.dir}``.

    Args:
        text: The text to split.
        scalar: The text of the spec that contains it.
        at: The offset of its first character there; None where offsets do not map.

    Raises:
        SpecError: E112, for each ``${…}`` that is not known.
    """
    parts: list[Part] = []
    faults: list[Fault] = []
    position = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        name = match[1]
        if name is None:
            parts.append("$")
        elif name in RUN_TIME and match[2]:
            parts.append(Builtin(RUN_TIME[name]))
        else:
            where = None if at is None else at + match.start()
            faults.append(_unknown_placeholder(name, bool(match[2]), scalar, where, len(match[0])))
    if faults:
        raise SpecError(*faults)
    parts.append(text[position:])
    return merge_literals(parts)


def merge_literals(parts: Iterable[str | _Filled]) -> list[str | _Filled]:
    """Merge adjacent literal parts of a source text that was split at what is filled in."""
    joined: list[str | _Filled] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def _unknown_placeholder(
    name: str, closed: bool, scalar: SourceText, at: int | None, length: int
) -> Fault:
    if not closed:
        message, mend = "a '${' is not closed", "close it with '}', or write $$ for a dollar"
        return scalar.fault("E112", message, mend, at, length)
    match = nearest(name, RUN_TIME)
    hint = f"did you mean '${{{match}}}'?  " if match else ""
    mend = f"{hint}known here: {', '.join(RUN_TIME)}; for a shell variable write $${{{name}}}"
    return scalar.fault("E112", f"'${{{name}}}' is unknown", mend, at, length)
