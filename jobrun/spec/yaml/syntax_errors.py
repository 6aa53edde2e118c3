"""Convert syntax errors of the YAML parser to faults that say how to fix them."""

from __future__ import annotations

import re

from jobrun.core.errors import Fault, Origin
from jobrun.spec.yaml.pyyaml import yaml

QUOTING_HINT = (
    'an expression with , [ { : or # inside [...] or {...} needs quotes, such as "x = f(a, b)"'
)
# The deepest nesting of lists and mappings in a spec, and the message and mend beyond it.
DEEPEST = 64
TOO_DEEP = (f"more than {DEEPEST} levels of nesting", "move the inner steps into a net")
_START_HINT = "put quotes around the whole text"

# Constructs with an end sign: if it is missing, the parser stops far behind their start.
_BEGUN = ("a quoted scalar", "a simple key")

# From the parser's words to ours: (pattern, message, mend).
_KNOWN: tuple[tuple[str, str, str], ...] = (
    ("mapping values are not allowed", "a ':' where no key is allowed",
     "quote a text that has ': ' in it, or check the indentation"),
    ("block sequence entries are not allowed", "a '-' where no list is allowed",
     "start the list on a line of its own"),
    ("found unexpected end of stream", "a quote is never closed",
     "close it with the same quote"),
    ("could not find expected ':'", "a key without a ':', or a text in an open bracket",
     "write ': ' after the key, or close the bracket above"),
    ("found unknown escape character", "an invalid escape sequence",
     "write \\\\ for a backslash, or use single quotes"),
    ("cannot start any token",
     "a text cannot start with this character without quotes", _START_HINT),
    ("did not find expected key", "a key was expected here",
     "check the indentation; a text that starts with a quote, [ or { needs quotes as a whole"),
    ("did not find expected '-'", "a list item was expected here",
     "check the indentation; a step that starts with a quote, [ or { needs quotes as a whole"),
    ("incompatible YAML document", "this version of YAML is not supported",
     "remove the %YAML line: specs are YAML 1.2"),
)  # fmt: skip


def syntax_fault(error: yaml.YAMLError, text: str, file: str) -> Fault:
    """Convert the syntax error of the YAML parser to a ``Fault`` with message and fix."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        first = str(error).splitlines()[0] if str(error) else "no reason given"
        return Fault("E005", f"not valid YAML: {first}", "check the file", Origin(file, 1, 1))
    mark = error.problem_mark
    line_text = _line(text, mark.line)
    where = _position(error, text, file)
    problem, context = error.problem or "", error.context or ""
    if "maximum nesting depth" in problem:  # libyaml 0.2.6 counts to 1,000 by itself
        return Fault("E015", *TOO_DEEP, where)
    if _is_tab(problem, line_text, mark.column):
        return Fault("E006", "a tab is used as indentation", "use spaces", where)
    if "flow" in context and not text[mark.index :].strip():
        return Fault("E005", "a bracket is never closed", "close it", _end(text, file))
    if "flow" in context and error.context_mark is not None:
        return _flow_fault(error.context_mark.line, error.context_mark.column, where)
    if _continues_after_bracket(line_text, mark.column):
        return Fault("E007", "there is text after a closing bracket or quote", QUOTING_HINT, where)
    for pattern, message, mend in _KNOWN:
        if pattern in problem:
            return Fault("E005", message, mend, where)
    return Fault("E005", f"not valid YAML: {problem}", "check the lines above", where)


def _position(error: yaml.MarkedYAMLError, text: str, file: str) -> Origin:
    """Return where a YAML syntax error is, or where an unclosed bracket or quote was opened."""
    mark = error.problem_mark
    begun = error.context_mark
    missing = (error.problem or "").endswith(("end of stream", "expected ':'"))
    if begun is not None and missing and (error.context or "").endswith(_BEGUN):
        return Origin(file, begun.line + 1, begun.column + 1)
    if mark is None or not text[mark.index :].strip():
        return _end(text, file)
    return Origin(file, mark.line + 1, mark.column + 1)


def _end(text: str, file: str) -> Origin:
    """Return the position of the last visible character in a text with a YAML syntax error."""
    lines = text.rstrip().split("\n")
    return Origin(file, len(lines), max(1, len(lines[-1])))


def _line(text: str, number: int) -> str:
    lines = text.split("\n", number + 1)
    return lines[number] if number < len(lines) else ""


def _is_tab(problem: str, line_text: str, column: int) -> bool:
    if "tab character" in problem:
        return True
    before = line_text[: column + 1]
    return "\t" in before and not before.strip()


def _continues_after_bracket(line_text: str, column: int) -> bool:
    return bool(re.search(r"[\]}]\s*$", line_text[:column])) and bool(line_text[column:].strip())


def _flow_fault(line: int, column: int, where: Origin) -> Fault:
    if where.line == line + 1:
        message = "this is not allowed in a list or mapping in brackets"
        return Fault("E007", message, QUOTING_HINT, where)
    opened = Origin(where.file, line + 1, column + 1)
    mend = "close it, or put quotes around a text that starts with it"
    return Fault("E005", "this bracket is never closed", mend, opened)
