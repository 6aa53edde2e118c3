"""Track the quotes of a line for bash, and quote a variable at any place of the line."""

from __future__ import annotations

import re
from typing import Literal

Context = Literal["plain", "double", "single", "ansi", "comment", "other"]
_Frame = Literal["plain", "paren", "double", "single", "ansi", "comment", "brace", "arith", "tick"]

# How a reference is written in each context; the last closes and opens the quotes around it.
_FORMS: dict[Context, str] = {
    "plain": '"{}"', "double": "{}", "single": "'\"{}\"'", "ansi": "'\"{}\"$'", "comment": "",
}  # fmt: skip
_OPENING = re.compile(r"\$\(\(|\$\(|\$\{|\$'|\$\"|\(\(|<<<|<<|[\\'\"`()#}]|\)\)")


def reference(variable: str, context: Context) -> str | None:
    """Quote a variable as one word for a place in a line for bash, or return None."""
    form = _FORMS.get(context)
    return None if form is None else form.format(f"${{{variable}}}")


class ShellLine:
    """Tracks the quotes of a bash line, piece by piece."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = ["plain"]
        self._has_document = False
        self._is_escaped = False
        self._before = "\n"

    @property
    def context(self) -> Context:
        """What surrounds the current place in a line for bash: quotes, a comment, or neither."""
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

    def feed(self, text: str) -> None:
        """Track the quotes of a line for bash through its next piece, as its author wrote it."""
        position = 0
        while position < len(text):
            position += self._step(text, position)
        self._is_escaped = position > len(text)
        self._before = text[-1:] or self._before

    def put(self) -> None:
        """Note that a variable was inserted at this place of the line for bash, in a word."""
        self._before = "x"
        self._is_escaped = False

    def _step(self, text: str, at: int) -> int:
        """Track the quotes of a line for bash through one token; return the token's length."""
        top, rest = self._frames[-1], text[at:]
        if top == "single":
            return self._until("'", rest)
        if top == "comment":
            return self._until("\n", rest)
        if top == "ansi":
            return 2 if rest[0] == "\\" else self._until("'", rest[:1])
        found = _OPENING.match(text, at)
        if found is None:
            return 1
        word = found[0]
        if word == "\\":
            return 2
        if top == "double":
            return self._in_double(word)
        return self._in_plain(word, text[at - 1] if at else self._before)

    def _until(self, end: str, rest: str) -> int:
        place = rest.find(end)
        if place < 0:
            return len(rest)
        self._frames.pop()
        return place + 1

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
                # What follows is a document in which quotes are letters.
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
