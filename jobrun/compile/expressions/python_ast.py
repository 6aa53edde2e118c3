"""Parse the text of an expression with Python's own parser, and map nodes to offsets."""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Iterator
from keyword import iskeyword
from typing import Literal

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.names import nearest
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Builtin

MAX_TEXT_LENGTH = 4096
MAX_DEPTH = 50

_OPENING, _CLOSING = "([{", ")]}"
# Each character can match in one way only: otherwise an unclosed quote backtracks exponentially.
_STRING = lazy_pattern(
    r"'''(?:\\.|(?!''')[^\\])*'''|\"\"\"(?:\\.|(?!\"\"\")[^\\])*\"\"\""
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|\#[^\n]*",
    re.DOTALL,
)
_WORD = lazy_pattern(r"[^\W\d]\w*")
# All that Python's parser can warn about; catch_warnings takes as long as parsing itself.
_MAY_WARN = lazy_pattern(r"\\|[0-9.][A-Za-z_]")
# Text to which no limit applies: it is too short for one.
_MOST_PLAIN = MAX_DEPTH
_PLAIN = lazy_pattern(rf"[!-#%-~][ -#%-~]{{0,{_MOST_PLAIN - 1}}}")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMPARISON = lazy_pattern(r"(?<![=!<>])[=!<>]=(?!=)")
_NEED_QUOTES = "inside flow collections expressions with , [ { : # need quotes"
# Operators of other languages, which Python's parser does not accept.
_FOREIGN = (
    ("&&", "write 'and', or & for arrays"),
    ("||", "write 'or', or | for arrays"),
    ("<>", "write !="),
    ("===", "write =="),
    ("!", "write 'not', or ~ for arrays"),
    ("?", "write 'x if condition else y', or where(condition, x, y)"),
    ("++", "write x += 1"),
    (";", "write one statement per step"),
    ("=", "write == to compare; an assignment is a separate step"),
)

Part = str | Builtin

# Placeholder → builtin. The loader has replaced all others already.
RUN_TIME: dict[str, str] = {
    "run.dir": "run.dir", "node": "node.name", "epoch": "epoch", "instance": "instance",
}  # fmt: skip
_PLACEHOLDER = lazy_pattern(r"\$\$|\$\{([^{}]*)(\}?)")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of one expression or statement of a spec, with its place.

    Attributes:
        text: The text.
        origin: Its place in the spec.
        path: Its path in the spec, for faults.
    """

    text: str
    origin: Origin
    path: str

    def fault(
        self, code: Code, message: str, mend: str, at: int | None = None, length: int = 1
    ) -> Fault:
        """Build a fault about the source text of a Python ``ast``, perhaps at an offset."""
        where = self.origin if at is None else self.origin.inside(at, length)
        return Fault(code, message, mend, where, self.path)

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the offset in the source text at which a node of Python's ``ast`` begins."""
        start = len(self.text) - len(self.text.lstrip())
        if node.lineno != 1:
            return start
        return start + self._characters(node.col_offset)

    def length(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the length in the source text of a node of Python's ``ast``."""
        end, end_line = node.end_col_offset, node.end_lineno
        if node.lineno != 1 or end is None or end_line != 1:
            return 1
        return self._characters(end) - self._characters(node.col_offset)

    def written(self, node: ast.expr | ast.keyword) -> str:
        """Return the source of a Python ``ast`` node; "" if not on the first line."""
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


def parse_python_expression(scalar: SourceText) -> ast.expr:
    """Parse the text of one expression by Python's own parser, to its ``ast``.

    Raises:
        SpecError: E100, E101, E108 or E112, if it is not one.
    """
    text = scalar.text
    if text.isidentifier() and text.isascii() and len(text) <= _MOST_PLAIN and not iskeyword(text):
        # Most values of a large spec are the name of a blob.
        return ast.Name(
            text, ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=len(text)
        )
    tree = _parse(scalar, "eval")
    if isinstance(tree, ast.Expression):
        return tree.body
    raise SpecError(scalar.fault("E100", "this is not an expression", "write a value"))


def parse_python_statement(scalar: SourceText) -> ast.stmt:
    """Parse a text as exactly one Python statement; return its node of Python's ``ast``.

    Raises:
        SpecError: E100, E101, E108 or E112, if it is not exactly one.
    """
    tree = _parse(scalar, "exec")
    body = tree.body if isinstance(tree, ast.Module) else []
    if len(body) == 1:
        return body[0]
    at = scalar.at(body[1]) if body else None
    raise SpecError(
        scalar.fault("E100", "this is not one statement", "write one statement per step", at)
    )


def _parse(scalar: SourceText, mode: Literal["eval", "exec"]) -> ast.AST:
    _require_parsable(scalar)
    text = scalar.text.strip()
    try:
        if _MAY_WARN.search(text) is None:
            return ast.parse(text, mode=mode)
        with warnings.catch_warnings():
            # A SyntaxWarning ('\d', '1if x') is an error here, in every version of Python.
            warnings.simplefilter("error")
            return ast.parse(text, mode=mode)
    except SyntaxError as error:
        raise SpecError(_syntax_fault(scalar, error, mode)) from None
    except (RecursionError, MemoryError):
        raise SpecError(_too_deep_fault(scalar)) from None
    except ValueError:
        # A lone surrogate: half a character.
        message = "this text contains characters that cannot be encoded as UTF-8"
        raise SpecError(scalar.fault("E100", message, "write it again")) from None


def is_plain(text: str) -> bool:
    """Return whether Python's parser can read a text unchecked: short plain ASCII."""
    return _PLAIN.fullmatch(text) is not None


def _require_parsable(scalar: SourceText) -> None:
    """Refuse a text that is empty, too long or too deep for Python's ``ast`` to parse."""
    text = scalar.text
    if is_plain(text):
        return
    if not text.strip():
        raise SpecError(scalar.fault("E100", "the expression is empty", "write a value"))
    if len(text) > MAX_TEXT_LENGTH:
        message = (
            f"this expression has {len(text)} characters; at most {MAX_TEXT_LENGTH} are allowed"
        )
        raise SpecError(scalar.fault("E108", message, "split it into several statements"))
    control = _CONTROL.search(text)
    if control is not None and control[0] != "\r":
        message = f"control character {control[0]!r} in an expression"
        raise SpecError(scalar.fault("E100", message, "take it out", control.start()))
    if not text.isascii():
        _require_normal_form(scalar)
    if "${" not in text and sum(map(text.count, _OPENING)) <= MAX_DEPTH:
        return
    depth = 0
    for at, character in outside_strings(text):
        if text.startswith("${", at):
            raise SpecError(_placeholder_fault(scalar, at))
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth > MAX_DEPTH:
            raise SpecError(_too_deep_fault(scalar))


def _require_normal_form(scalar: SourceText) -> None:
    """Refuse names that Python's ``ast`` would hold in other letters (Unicode NFKC)."""
    for word in _WORD.finditer(scalar.text):
        read = unicodedata.normalize("NFKC", word[0])
        if read != word[0]:
            message, mend = f"'{word[0]}' would be read as '{read}'", f"write {read}"
            fault = scalar.fault("E107", message, mend, word.start(), len(word[0]))
            if any(at == word.start() for at, _ in outside_strings(scalar.text)):
                raise SpecError(fault)


def outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters of a Python text outside strings and comments, with offsets."""
    position = 0
    for quoted in _STRING.finditer(text):
        yield from enumerate(text[position : quoted.start()], position)
        position = quoted.end()
    yield from enumerate(text[position:], position)


def _too_deep_fault(scalar: SourceText) -> Fault:
    message = f"this expression has more than {MAX_DEPTH} levels of nesting"
    return scalar.fault("E108", message, "split it into several statements")


def _placeholder_fault(scalar: SourceText, at: int) -> Fault:
    end = scalar.text.find("}", at)
    name = scalar.text[at + 2 : end] if end > 0 else ""
    instead = {"run.dir": "'${run.dir}'", "node": "node.name"}.get(name, name)
    return scalar.fault(
        "E112",
        f"'${{{name}}}' is used in an expression, where names are written without ${{…}}",
        f"write {instead}" if instead else "write only the name",
        at,
        len(name) + 3,
    )


def _syntax_fault(scalar: SourceText, error: SyntaxError, mode: str) -> Fault:
    text = scalar.text
    if not _is_balanced(text):
        return scalar.fault("E101", "unbalanced brackets or quotes", _NEED_QUOTES)
    foreign = _foreign_fault(scalar, mode)
    if foreign is not None:
        return foreign
    at = None
    if error.lineno in (1, None):
        start = len(text) - len(text.lstrip())
        # At the end of an expression SyntaxError.offset is 0.
        end = len(text.rstrip())
        at = min(start + (error.offset or end) - 1, end - 1)
    why = error.msg.split(".")[0]
    message = f"syntax error: {why[:1].lower()}{why[1:]}"
    return scalar.fault("E100", message, "write it as in Python", at)


def _foreign_fault(scalar: SourceText, mode: str) -> Fault | None:
    """Explain a ``SyntaxError`` of Python by another language's operator, as ``&&``."""
    plain = [" "] * len(scalar.text)
    for at, character in outside_strings(scalar.text):
        plain[at] = character
    masked = _COMPARISON.sub(lambda found: " " * len(found[0]), "".join(plain))
    for foreign, mend in _FOREIGN:
        at = masked.find(foreign)
        if at >= 0 and not (foreign == "=" and mode == "exec"):
            return scalar.fault("E100", "invalid syntax", mend, at, len(foreign))
    return None


def _is_balanced(text: str) -> bool:
    waiting: list[str] = []
    for _, character in outside_strings(text):
        if character in _OPENING:
            waiting.append(_CLOSING[_OPENING.index(character)])
        elif (
            character in _CLOSING and (not waiting or waiting.pop() != character)
        ) or character in "'\"":
            return False
    return not waiting


class Findings:
    """The faults of one source text, collected while it is translated."""

    def __init__(self, scalar: SourceText) -> None:
        self.scalar = scalar
        self.faults: list[Fault] = []

    def add(
        self, code: Code, message: str, mend: str, node: ast.expr | ast.stmt | ast.keyword | None
    ) -> None:
        """Add a fault at a node of Python's ``ast``; without a node, about the whole text."""
        at = None if node is None else self.scalar.at(node)
        length = 1 if node is None else self.scalar.length(node)
        self.faults.append(self.scalar.fault(code, message, mend, at, length))

    def raise_if_any(self) -> None:
        """Raise one ``SpecError`` with all faults found at nodes of Python's ``ast``, if any.

        Raises:
            SpecError: There is at least one.
        """
        if self.faults:
            raise SpecError(*self.faults)


def split_placeholders(text: str, scalar: SourceText, at: int | None) -> list[Part]:
    """Split a Python ``ast`` string at placeholders such as ``${run.dir}``.

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
    for found in _PLACEHOLDER.finditer(text):
        parts.append(text[position : found.start()])
        position = found.end()
        name = found[1]
        if name is None:
            parts.append("$")
        elif name in RUN_TIME and found[2]:
            parts.append(Builtin(RUN_TIME[name]))
        else:
            where = None if at is None else at + found.start()
            faults.append(_unknown_placeholder(name, bool(found[2]), scalar, where, len(found[0])))
    if faults:
        raise SpecError(*faults)
    parts.append(text[position:])
    return merge_literals(parts)


def merge_literals(parts: list[Part]) -> list[Part]:
    """Merge adjacent string parts of a Python ``ast`` string split at placeholders."""
    joined: list[Part] = []
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
