"""Substitute references ``${…}`` in the tree of a spec by values of params and the environment.

In a line for bash, a text becomes a bash variable, in quotes that fit those open at its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from itertools import count
from typing import Any, Literal

from msgspec import Struct, field

from jobrun.core.codes import Code
from jobrun.core.errors import Fault
from jobrun.core.files.digest import PREFIX, digest_bytes
from jobrun.core.text.names import nearest
from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.yaml.nodes import (
    Mapping,
    Node,
    Path,
    Scalar,
    Sequence,
    origin_of,
    path_text,
    short,
)
from jobrun.spec.yaml.scalars import NumberRangeError, Value, resolve

# References whose values are known only while the job runs; they stay in the text.
RUN_TIME_NAMES = ("run.dir", "node", "epoch", "instance")
# Prefix of a name in a bash line: the value is inserted as part of the line, unquoted.
RAW = "raw:"
_WITH_STEPS = frozenset({"init", "epoch", "download", "exit", "nets"})

# Marks a list or a mapping, in place of a scalar's value.
_NO_SCALAR = object()

_REFERENCE = lazy_pattern(r"\$\$|\$\{([^{}]*)(\})?")
_WHOLE = lazy_pattern(r"\$\{([^{}]*)\}")


class _UnknownError(Exception):
    """A reference ``${…}`` is unknown; holds the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Substitution(Struct):
    """Substitutes references ``${…}`` in the tree of a spec.

    Attributes:
        params: The values of the params known so far.
        environment: Where ``${env:NAME}`` is looked up.
        seed: The value of ``${run.seed}``; None while that is not known.
        digests: sha256 of each variable that was used, by name; never the value.
        faults: References that stand for nothing.
        env_texts: Paths whose whole value came from the environment, with its text.
    """

    params: MappingType[str, Value]
    environment: MappingType[str, str]
    seed: Value = None
    digests: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    env_texts: dict[Path, str] = field(default_factory=dict)

    def tree(self, node: Node, path: Path = ()) -> Any:
        """Substitute every ``${…}`` in a spec's YAML nodes, and return nested dicts and lists."""
        value: Any
        if isinstance(node, Scalar):
            value = node.value
            return self.scalar(node, path) if isinstance(value, str) and "$" in value else value
        # A fast path: most values of a large spec are scalars without a reference.
        if isinstance(node, Sequence):
            items = []
            for index, child in enumerate(node.items):
                value = child.value if type(child) is Scalar else _NO_SCALAR
                if value is _NO_SCALAR or (type(value) is str and "$" in value):
                    value = self.tree(child, (*path, index))
                items.append(value)
            return items
        data = {}
        in_shell = "run" in node.values and _is_shell_line(node, path)
        for key, child in node.values.items():
            if in_shell and key == "run":
                continue
            value = child.value if type(child) is Scalar else _NO_SCALAR
            if value is _NO_SCALAR or (type(value) is str and "$" in value):
                value = self.tree(child, (*path, key))
            data[key] = value
        return self._shell_step(node, path, data) if in_shell else data

    def _shell_step(self, node: Mapping, path: Path, data: dict[str, Any]) -> dict[str, Any]:
        """Substitute each ``${…}`` in the bash line of a ``run`` step, texts by bash variables."""
        line = node.values["run"]
        arguments = data.get("with", {})
        if not isinstance(line, Scalar) or not isinstance(arguments, dict):
            return {key: data.get(key, getattr(line, "value", None)) for key in node.values}
        names = (name for number in count(1) if (name := f"value_{number}") not in arguments)
        handed: dict[str, str] = {}
        try:
            text = self._shell_line(line, (*path, "run"), names, handed)
        except _UnknownError as error:
            self.faults.append(error.fault)
            text = str(line.value)
        data = {key: text if key == "run" else data[key] for key in node.values}
        return data | {"with": arguments | handed} if handed else data

    def _shell_line(
        self, node: Scalar, path: Path, names: Iterator[str], handed: dict[str, str]
    ) -> str:
        text, parts, position, quotes = str(node.value), [], 0, BashQuotes()
        # The line as bash will see it, up to the next value.
        before = ""
        for match in _REFERENCE.finditer(text):
            literal = text[position : match.start()]
            position = match.end()
            before += literal
            parts.append(literal)
            if match[0] == "$$":
                before += "$"
                parts.append("$$")
                continue
            quotes.feed(before)
            before = ""
            parts.append(self._in_shell_line(match, node, path, quotes, names, handed))
        return "".join((*parts, text[position:]))

    def _in_shell_line(
        self,
        match: re.Match[str],
        node: Scalar,
        path: Path,
        quotes: BashQuotes,
        names: Iterator[str],
        handed: dict[str, str],
    ) -> str:
        """Substitute one ``${…}`` in the bash line of a ``run`` step; return the quoted text."""
        name = match[1]
        if match[2] and name.startswith(RAW):
            raw = self._value(name.removeprefix(RAW), node, path)
            quotes.feed(str(raw))
            return _text(raw).replace("$", "$$")
        if match[2] and name in RUN_TIME_NAMES:
            variable = "JOBRUN_RUN_PATH" if name == "run.dir" else ""
        else:
            if match[2] is None:
                raise _unclosed(node, path)
            value = self._value(name, node, path)
            if not isinstance(value, str):
                quotes.put()
                return _text(value)
            variable = next(names)
            # A param is text of the spec, where $$ means one dollar; a variable is literal.
            is_foreign = name.startswith("env:")
            handed[variable] = repr(value.replace("$", "$$") if is_foreign else value)
            variable = f"JOBRUN_{variable.upper()}"
        quoted = quotes.quoted(variable) if variable else None
        quotes.put()
        if quoted is not None:
            return quoted.replace("$", "$$")
        if name in RUN_TIME_NAMES:
            return match[0]
        message = f"'${{{short(name)}}}' cannot be passed to bash as one word here: inside "
        mend = (
            f"assign it to a variable first, and use that here: X=${{{short(name)}}}; or, "
            f"to insert it as part of the command, write ${{{RAW}{short(name)}}}"
        )
        places = "backquotes, arithmetic, a here-document, '${…}' or after a backslash"
        raise _unknown("E446", message + places, mend, node, path)

    def scalar(self, node: Scalar, path: Path) -> Value:
        """Substitute each ``${…}`` in a text; return the value of one that is the whole text."""
        text = str(node.value)
        try:
            whole = _WHOLE.fullmatch(text)
            if whole and whole[1] not in RUN_TIME_NAMES:
                return self._whole(whole[1], node, path)
            return _REFERENCE.sub(lambda match: self._inside(match, node, path), text)
        except _UnknownError as error:
            self.faults.append(error.fault)
            return text

    def _whole(self, name: str, node: Scalar, path: Path) -> Value:
        value = self._value(name, node, path)
        if not name.startswith("env:"):
            return value
        self.env_texts[path] = str(value)
        try:
            return resolve(str(value)) if value else ""
        except NumberRangeError:
            return value

    def _inside(self, match: re.Match[str], node: Scalar, path: Path) -> str:
        if match[0] == "$$" or match[1] in RUN_TIME_NAMES:
            return match[0]
        if match[2] is None:
            raise _unclosed(node, path)
        return _text(self._value(match[1], node, path))

    def _value(self, name: str, node: Scalar, path: Path) -> Value:
        if name.startswith("env:"):
            return self._variable(name, node, path)
        if name == "run.seed" and self.seed is not None:
            return self.seed
        if name in self.params:
            return self.params[name]
        if name.startswith(RAW):
            message = f"'${{{short(name)}}}' is only allowed in the command of a 'run' step"
            mend = f"write ${{{short(name.removeprefix(RAW))}}}"
            raise _unknown("E037", message, mend, node, path)
        known = [*self.params, "run.seed", *RUN_TIME_NAMES]
        match = nearest(name, known)
        hint = f"did you mean '${{{match}}}'?  " if match else ""
        mend = f"{hint}known here: {', '.join(known)}; $${{{short(name)}}} passes it to the shell"
        raise _unknown("E037", f"'${{{short(name)}}}' is unknown", mend, node, path)

    def _variable(self, name: str, node: Scalar, path: Path) -> str:
        variable, comma, default = name.removeprefix("env:").partition(",")
        value = self.environment.get(variable)
        if value is None and not comma:
            message = f"the environment variable {variable} is not set"
            mend = f"set it, or give a default: ${{env:{variable},value}}"
            raise _unknown("E038", message, mend, node, path)
        text = default if value is None else value
        digest = digest_bytes(text.encode("utf-8", "surrogateescape"))
        self.digests[variable] = digest.removeprefix(PREFIX)
        return text


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_shell_line(node: Mapping, path: Path) -> bool:
    """Return whether a mapping in a spec is a ``run`` step that has ``${…}`` to substitute."""
    line = node.values.get("run")
    is_step = len(path) > 1 and isinstance(path[-1], int) and path[0] in _WITH_STEPS
    return is_step and isinstance(line, Scalar) and "${" in str(line.value)


def _unclosed(node: Scalar, path: Path) -> _UnknownError:
    mend = "close it with '}', or write $$ for a dollar"
    return _unknown("E037", "a '${' is not closed", mend, node, path)


def _unknown(code: Code, message: str, mend: str, node: Scalar, path: Path) -> _UnknownError:
    return _UnknownError(Fault(code, message, mend, origin_of(node.position), path_text(path)))


def references(node: Node) -> set[str]:
    """Collect the names that a spec refers to by ``${…}``, to substitute their values."""
    if isinstance(node, Scalar):
        text = node.value
        if not isinstance(text, str) or "${" not in text:
            return set()
        return {match[1].removeprefix(RAW) for match in _REFERENCE.finditer(text) if match[2]}
    below = node.items if isinstance(node, Sequence) else node.values.values()
    return set().union(*(references(item) for item in below))


Context = Literal["plain", "double", "single", "ansi", "comment", "other"]
_Frame = Literal["plain", "paren", "double", "single", "ansi", "comment", "brace", "arith", "tick"]

# How a reference is written in each context; the last closes and opens the quotes around it.
_FORMS: dict[Context, str] = {
    "plain": '"{}"', "double": "{}", "single": "'\"{}\"'", "ansi": "'\"{}\"$'", "comment": "",
}  # fmt: skip
_OPENING = lazy_pattern(r"\$\(\(|\$\(|\$\{|\$'|\$\"|\(\(|<<<|<<|[\\'\"`()#}]|\)\)")


class BashQuotes:
    """Follows the quotes that a bash line opens and closes, piece by piece."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = ["plain"]
        self._has_document = False
        self._is_escaped = False
        self._before = "\n"

    def quoted(self, variable: str) -> str | None:
        """Return a bash variable to substitute for ``${…}``, quoted as the open quotes require.

        None where bash would not expand it, or not as part of one word.
        """
        template = _FORMS.get(self._context)
        return None if template is None else template.format(f"${{{variable}}}")

    def feed(self, text: str) -> None:
        """Read a piece of a bash line, and track the quotes open where ``${…}`` is substituted."""
        position = 0
        while position < len(text):
            position += self._step(text, position)
        self._is_escaped = position > len(text)
        self._before = text[-1:] or self._before

    def put(self) -> None:
        """Record that a value was substituted at the end of the bash text read so far.

        So that no comment begins behind it.
        """
        self._before = "x"
        self._is_escaped = False

    @property
    def _context(self) -> Context:
        """Return which bash quotes are open where ``${…}`` is substituted, such as ``double``."""
        top = self._frames[-1]
        if (
            self._is_escaped
            or self._has_document
            or "tick" in self._frames
            or "arith" in self._frames
        ):
            return "other"
        if top in ("double", "single", "ansi", "comment"):
            return top
        return "plain" if top in ("plain", "paren") else "other"

    def _step(self, text: str, at: int) -> int:
        """Read one token of a bash line to substitute in; return the token's length."""
        top, unread = self._frames[-1], text[at:]
        if top == "single":
            return self._until("'", unread)
        if top == "comment":
            return self._until("\n", unread)
        if top == "ansi":
            return 2 if unread[0] == "\\" else self._until("'", unread[:1])
        match = _OPENING.match(text, at)
        if match is None:
            return 1
        word = match[0]
        if word == "\\":
            return 2
        if top == "double":
            return self._in_double(word)
        return self._in_plain(word, text[at - 1] if at else self._before)

    def _until(self, end: str, unread: str) -> int:
        offset = unread.find(end)
        if offset < 0:
            return len(unread)
        self._frames.pop()
        return offset + 1

    def _in_double(self, word: str) -> int:
        if word == '"':
            self._frames.pop()
        elif word == "`":
            self._tick()
        elif word in ("$(", "$((", "${"):
            self._push(word)
        else:
            return 1
        return len(word)

    def _in_plain(self, word: str, before: str) -> int:
        top = self._frames[-1]
        match word:
            case "`":
                self._tick()
            case "#":
                if top in ("plain", "paren", "tick") and before in " \t\n;&|(":
                    self._frames.append("comment")
            case "<<":
                # A here-document follows, in which quotes are ordinary characters.
                self._has_document = self._has_document or top in ("plain", "paren", "tick")
            case "}":
                if top == "brace":
                    self._frames.pop()
            case "))" if top == "arith":
                self._frames.pop()
            case ")" | "))":
                if top == "paren":
                    self._frames.pop()
                return 1
            case "'" | '"' | "$'" | '$"' | "$(" | "$((" | "((" | "${" | "(":
                self._push(word)
            case _:
                pass
        return len(word)

    def _push(self, word: str) -> None:
        frames: dict[str, _Frame] = {
            "'": "single", '"': "double", "$'": "ansi", '$"': "double", "$(": "paren",
            "(": "paren", "$((": "arith", "((": "arith", "${": "brace",
        }  # fmt: skip
        self._frames.append(frames[word])

    def _tick(self) -> None:
        if "tick" in self._frames:
            while self._frames.pop() != "tick":
                pass
        else:
            self._frames.append("tick")
