"""Track which quotes of bash are open in a line, to write a variable in the right ones there."""

from __future__ import annotations

from typing import Literal

from jobrun.core.text.patterns import lazy_pattern

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
        """Return a reference to a bash variable, quoted for the end of the text read so far.

        None where bash would not expand it, or not as part of one word.
        """
        form = _FORMS.get(self._context)
        return None if form is None else form.format(f"${{{variable}}}")

    def feed(self, text: str) -> None:
        """Read the next piece of a bash line, and update which quotes are open behind it."""
        position = 0
        while position < len(text):
            position += self._step(text, position)
        self._is_escaped = position > len(text)
        self._before = text[-1:] or self._before

    def put(self) -> None:
        """Record that a value ends here in the bash line, so that no comment begins behind it."""
        self._before = "x"
        self._is_escaped = False

    @property
    def _context(self) -> Context:
        """Return which quotes of bash are open behind the text read so far, such as ``double``."""
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
        """Read one token of a bash line; update the open quotes, and return the token's length."""
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
