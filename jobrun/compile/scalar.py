"""The text of one expression or statement, where its parts stand, and how Python reads it."""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin

LONGEST_TEXT = 4096
DEEPEST = 50

_OPENING, _CLOSING = "([{", ")]}"
# A character has one way to match, or the search of an unclosed text would take for ever.
_STRING = re.compile(
    r"'''(?:\\.|(?!''')[^\\])*'''|\"\"\"(?:\\.|(?!\"\"\")[^\\])*\"\"\""
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|\#[^\n]*",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d]\w*")
# All that Python's parser ever warns of; setting the warnings aside takes as long as parsing.
_DOUBTFUL = re.compile(r"\\|[0-9.][A-Za-z_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMPARISON = re.compile(r"(?<![=!<>])[=!<>]=(?!=)")
_NEED_QUOTES = "inside flow collections expressions with , [ { : # need quotes"
# What people write who come from elsewhere, as Python's parser does not read it.
_FOREIGN = (
    ("&&", "write 'and', or & for arrays"),
    ("||", "write 'or', or | for arrays"),
    ("<>", "write !="),
    ("===", "write =="),
    ("!", "write 'not', or ~ for arrays"),
    ("?", "write 'x if condition else y', or where(condition, x, y)"),
    ("++", "write x += 1"),
    (";", "write one statement per step"),
    ("=", "write == to compare; an assignment is a step of its own"),
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One text of a spec.

    Attributes:
        text: The text.
        origin: Where it stands.
        path: What it belongs to, as faults name it.
    """

    text: str
    origin: Origin
    path: str

    def fault(
        self, code: str, message: str, mend: str, at: int | None = None, length: int = 1
    ) -> Fault:
        """A fault ``at`` so many characters into the text; without it, of the text as a whole."""
        where = self.origin if at is None else self.origin.inside(at, length)
        return Fault(code, message, mend, where, self.path)

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Where a node begins, in characters from the start of the text."""
        start = len(self.text) - len(self.text.lstrip())
        if node.lineno != 1:
            return start
        return start + self._characters(node.col_offset)

    def length(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """How many characters a node takes; 1 where it goes over several lines."""
        end, end_line = node.end_col_offset, node.end_lineno
        if node.lineno != 1 or end is None or end_line != 1:
            return 1
        return self._characters(end) - self._characters(node.col_offset)

    def written(self, node: ast.expr | ast.keyword) -> str:
        """The characters of a node of the first line; empty for any other."""
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


def read_expression(scalar: Scalar) -> ast.expr:
    """The text as one Python expression.

    Raises:
        SpecError: E100, E101, E108 or E112, if it is none.
    """
    tree = _parsed(scalar, "eval")
    if isinstance(tree, ast.Expression):
        return tree.body
    raise SpecError(scalar.fault("E100", "this is no expression", "write a value"))


def read_statement(scalar: Scalar) -> ast.stmt:
    """The text as one Python statement.

    Raises:
        SpecError: E100, E101, E108 or E112, if it is none, or several.
    """
    tree = _parsed(scalar, "exec")
    body = tree.body if isinstance(tree, ast.Module) else []
    if len(body) == 1:
        return body[0]
    at = scalar.at(body[1]) if body else None
    raise SpecError(
        scalar.fault("E100", "this is not one statement", "write one statement per step", at)
    )


def _parsed(scalar: Scalar, mode: Literal["eval", "exec"]) -> ast.AST:
    _check_before(scalar)
    text = scalar.text.strip()
    try:
        if _DOUBTFUL.search(text) is None:
            return ast.parse(text, mode=mode)
        with warnings.catch_warnings():
            # What is doubtful to Python ('\d', '1if x') is an error here, in every version.
            warnings.simplefilter("error")
            return ast.parse(text, mode=mode)
    except SyntaxError as error:
        raise SpecError(_syntax_fault(scalar, error, mode)) from None
    except (RecursionError, MemoryError):
        raise SpecError(_too_deep(scalar)) from None
    except ValueError:
        # Half a character (a lone surrogate).
        message = "this text holds characters that no file can hold"
        raise SpecError(scalar.fault("E100", message, "write it anew")) from None


def _check_before(scalar: Scalar) -> None:
    """Refuse what Python's parser should not even see."""
    text = scalar.text
    if not text.strip():
        raise SpecError(scalar.fault("E100", "there is no expression here", "write a value"))
    if len(text) > LONGEST_TEXT:
        message = f"this expression has {len(text)} characters, and {LONGEST_TEXT} are allowed"
        raise SpecError(scalar.fault("E108", message, "write several statements"))
    control = _CONTROL.search(text)
    if control is not None and control[0] != "\r":
        message = f"the control character {control[0]!r} stands in an expression"
        raise SpecError(scalar.fault("E100", message, "take it out", control.start()))
    if not text.isascii():
        _check_normal_form(scalar)
    if "${" not in text and sum(map(text.count, _OPENING)) <= DEEPEST:
        return
    depth = 0
    for at, character in outside_strings(text):
        if text.startswith("${", at):
            raise SpecError(_placeholder_fault(scalar, at))
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth > DEEPEST:
            raise SpecError(_too_deep(scalar))


def _check_normal_form(scalar: Scalar) -> None:
    """Python reads look-alikes (full-width letters) as ASCII; here what is read stands there."""
    for word in _WORD.finditer(scalar.text):
        read = unicodedata.normalize("NFKC", word[0])
        if read != word[0]:
            message, mend = f"'{word[0]}' would be read as '{read}'", f"write {read}"
            fault = scalar.fault("E107", message, mend, word.start(), len(word[0]))
            if any(at == word.start() for at, _ in outside_strings(scalar.text)):
                raise SpecError(fault)


def outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """The characters that are not inside quotes or a comment, with their offsets."""
    position = 0
    for quoted in _STRING.finditer(text):
        yield from enumerate(text[position : quoted.start()], position)
        position = quoted.end()
    yield from enumerate(text[position:], position)


def _too_deep(scalar: Scalar) -> Fault:
    message = f"this expression is nested deeper than {DEEPEST} levels"
    return scalar.fault("E108", message, "write several statements")


def _placeholder_fault(scalar: Scalar, at: int) -> Fault:
    end = scalar.text.find("}", at)
    name = scalar.text[at + 2 : end] if end > 0 else ""
    instead = {"run.dir": "'${run.dir}'", "node": "node.name"}.get(name, name)
    return scalar.fault(
        "E112",
        f"'${{{name}}}' stands in an expression, where names are written as they are",
        f"write {instead}" if instead else "write the name alone",
        at,
        len(name) + 3,
    )


def _syntax_fault(scalar: Scalar, error: SyntaxError, mode: str) -> Fault:
    text = scalar.text
    if not _balanced(text):
        return scalar.fault("E101", "brackets or quotes are not balanced", _NEED_QUOTES)
    foreign = _foreign_fault(scalar, mode)
    if foreign is not None:
        return foreign
    at = None
    if error.lineno in (1, None):
        start = len(text) - len(text.lstrip())
        # At the end of an expression Python says 0.
        end = len(text.rstrip())
        at = min(start + (error.offset or end) - 1, end - 1)
    why = error.msg.split(".")[0]
    message = f"this cannot be read: {why[:1].lower()}{why[1:]}"
    return scalar.fault("E100", message, "write it as Python would", at)


def _foreign_fault(scalar: Scalar, mode: str) -> Fault | None:
    """What other languages write, if that stands there."""
    plain = [" "] * len(scalar.text)
    for at, character in outside_strings(scalar.text):
        plain[at] = character
    masked = _COMPARISON.sub(lambda found: " " * len(found[0]), "".join(plain))
    for foreign, mend in _FOREIGN:
        at = masked.find(foreign)
        if at >= 0 and not (foreign == "=" and mode == "exec"):
            return scalar.fault("E100", "this cannot be read", mend, at, len(foreign))
    return None


def _balanced(text: str) -> bool:
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
    """What is wrong with one text, collected while it is read."""

    def __init__(self, scalar: Scalar) -> None:
        self.scalar = scalar
        self.faults: list[Fault] = []

    def add(
        self, code: str, message: str, mend: str, node: ast.expr | ast.stmt | ast.keyword | None
    ) -> None:
        """Note a fault at a node; without one, of the text as a whole."""
        at = None if node is None else self.scalar.at(node)
        length = 1 if node is None else self.scalar.length(node)
        self.faults.append(self.scalar.fault(code, message, mend, at, length))

    def raise_if_any(self) -> None:
        """Raise all of them as one.

        Raises:
            SpecError: There is at least one.
        """
        if self.faults:
            raise SpecError(*self.faults)
