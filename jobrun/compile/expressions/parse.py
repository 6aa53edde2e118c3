"""Parse the text of expressions and statements into frozen trees, by Python's own parser."""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Iterator
from keyword import iskeyword
from typing import Any, Literal

from jobrun.compile.expressions import limits
from jobrun.compile.expressions.limits import MAX_DEPTH, MAX_TEXT_LENGTH
from jobrun.compile.expressions.source_text import SourceText
from jobrun.compile.expressions.translate import UNREADABLE, Params, StatementTranslator, Translator
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Const, Expr
from jobrun.graph.expressions import Sequence as SequenceExpr
from jobrun.graph.steps import Op

_KINDS: dict[type, str] = {dict: "a mapping", set: "a set", bytes: "binary data"}
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
# A text of at most this length is too short to break any limit.
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


def parse_expression(value: Any, origin: Origin, path: str, params: Params) -> Expr:
    """Parse a value of a spec, usually text, to an expression, an immutable tree.

    Names are kept as written; whether such a blob, task or loop exists is checked later.

    Args:
        value: Text is read as an expression; a bool, number or None is itself; a list or
            tuple is a list of expressions.
        origin: Its position in the spec; faults point into it.
        path: Its path in the spec, for faults.
        params: The params, which are replaced by their values.

    Raises:
        SpecError: It is not valid; with all its faults, codes E100 to E118.
    """
    match value:
        case str():
            return _parse_text(value, origin, path, params)
        case list() | tuple():
            return _parse_items(value, origin, path, params)
        case int() if not limits.fits_64_bits(value):
            mend = "write a float, such as 1e30"
            raise SpecError.of(
                "E109", "this number has more than 64 bits", mend, where=origin, path=path
            )
        case None | bool() | int() | float():
            return Const(value)
        case _:
            kind = _KINDS.get(type(value), f"a {type(value).__name__}")
            mend = "write an expression, a number, or a list of them"
            raise SpecError.of(
                "E117", f"{kind} is not a valid value", mend, where=origin, path=path
            )


def parse_statement(text: str, origin: Origin, path: str, params: Params) -> Op:
    """Parse the text of a statement, such as ``x = a + 1``, to the graph's ``Op``.

    Args:
        text: The statement.
        origin: Its position in the spec, also the operator's; faults point into it.
        path: The step's path, which becomes that of the operator.
        params: The params, which are replaced by their values.

    Raises:
        SpecError: It is not valid; with all its faults, codes E100 to E118, E150 and E151.
    """
    scalar = SourceText(text, origin, path)
    return StatementTranslator(scalar, params).translate(parse_python_statement(scalar))


def _parse_text(text: str, origin: Origin, path: str, params: Params) -> Expr:
    scalar = SourceText(text, origin, path)
    node = parse_python_expression(scalar)
    translator = Translator(scalar, params)
    expr = translator.expression(node)
    translator.findings.raise_if_any()
    return expr


def _parse_items(
    values: list[Any] | tuple[Any, ...], origin: Origin, path: str, params: Params
) -> Expr:
    if len(values) > limits.MAX_ITEMS:
        message = f"this list has {len(values)} items; at most {limits.MAX_ITEMS} are allowed"
        raise SpecError.of("E108", message, "load them from a file", where=origin, path=path)
    items: list[Expr] = []
    faults: list[Fault] = []
    # The position of an item is not known here; its offsets would point to wrong columns.
    whole = Origin(origin.file, origin.line, origin.column, origin.length)
    for value in values:
        try:
            items.append(parse_expression(value, whole, path, params))
        except SpecError as error:
            faults += error.faults
            items.append(UNREADABLE)
    if faults:
        raise SpecError(*faults)
    return SequenceExpr(tuple(items), "list")


def parse_python_expression(scalar: SourceText) -> ast.expr:
    """Parse the text of one expression to Python's ``ast``.

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
    """Parse the text of exactly one statement to Python's ``ast``.

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
    """Return whether a text can be parsed unchecked: it is short, plain ASCII."""
    return _PLAIN.fullmatch(text) is not None


def _require_parsable(scalar: SourceText) -> None:
    """Refuse to parse a text that is empty, too long or nested too deep."""
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
    """Refuse names in which Python's parser would replace letters (Unicode NFKC)."""
    for word in _WORD.finditer(scalar.text):
        read = unicodedata.normalize("NFKC", word[0])
        if read != word[0]:
            message, mend = f"'{word[0]}' would be read as '{read}'", f"write {read}"
            fault = scalar.fault("E107", message, mend, word.start(), len(word[0]))
            if any(at == word.start() for at, _ in outside_strings(scalar.text)):
                raise SpecError(fault)


def outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, character) for all outside strings and comments of a text to parse."""
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
    """Explain why Python cannot parse a text: another language's operator, such as ``&&``."""
    plain = [" "] * len(scalar.text)
    for at, character in outside_strings(scalar.text):
        plain[at] = character
    masked = _COMPARISON.sub(lambda match: " " * len(match[0]), "".join(plain))
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
