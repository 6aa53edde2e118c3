"""Build the tree of YAML nodes, with their positions, from the events of PyYAML's parser.

Events and not nodes, because the parser's own node builder recurses in C (deep nesting
kills the process), resolves YAML 1.1, keeps the last of two equal keys and loses positions.

Anchors may stand anywhere, also unused; their home is a key ``x-…`` at the top of a file,
which the models never see. Aliases and merge keys are followed within a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobrun.core.codes import Code
from jobrun.core.errors import Fault
from jobrun.spec.yaml.nodes import (
    Mapping,
    Node,
    Path,
    Position,
    Scalar,
    Sequence,
    origin_of,
    path_text,
    short,
)
from jobrun.spec.yaml.pyyaml import yaml
from jobrun.spec.yaml.scalars import NumberRangeError, is_text, resolve
from jobrun.spec.yaml.syntax_errors import DEEPEST, QUOTING_HINT, TOO_DEEP

# A third more than a spec of 100,000 tasks has. A value takes some 600 bytes until the spec is
# checked, so the largest spec needs 1.2 GB.
MOST_VALUES = 2_000_000
_VALUE_BYTES = 600

# Makes a named tuple from a tuple of its values.
_new: Any = tuple.__new__

# Markers for keys; no text of a file equals them.
_EXPECTED = object()
_DROPPED = object()
_MERGE = object()


class StopReadingError(Exception):
    """The YAML document cannot be read further; the faults say why."""


class _Frame:
    """A YAML sequence or mapping that is still open."""

    __slots__ = ("anchor", "cut", "cut_at", "flow", "height", "items", "key", "key_position",
                 "keys", "merges", "position", "started", "values")  # fmt: skip

    def __init__(self, position: Position, event: Any, started: int) -> None:
        self.position = position
        self.anchor: str | None = event.anchor
        self.flow: bool = event.flow_style
        self.started = started
        self.height = 1
        is_mapping = type(event) is yaml.events.MappingStartEvent
        self.items: list[Node] | None = None if is_mapping else []
        self.values: dict[str, Node] = {}
        self.keys: dict[str, Position] = {}
        self.key: Any = _EXPECTED
        self.key_position: Position = position
        self.merges: tuple[Mapping, ...] = ()
        self.cut: Position | None = None
        self.cut_at = 0

    @property
    def wants_key(self) -> bool:
        """Return whether the next node built in this YAML mapping is a key, not a value."""
        return self.items is None and self.key is _EXPECTED


class Builder:
    """Builds the YAML tree from the events of one document, in order.

    Attributes:
        root: The tree, once the document has ended.
        faults: What was found wrong so far.
    """

    def __init__(self, file: str, text: str) -> None:
        self.root: Node | None = None
        self.faults: list[Fault] = []
        self._file = file
        self._text = text
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        # Plain keys that are text: a large spec repeats the same few.
        self._keys: set[str] = set()
        self._values = 0
        self._documents = 0
        self._actions = {
            yaml.events.ScalarEvent: self._scalar,
            yaml.events.SequenceStartEvent: self._open,
            yaml.events.MappingStartEvent: self._open,
            yaml.events.SequenceEndEvent: self._close,
            yaml.events.MappingEndEvent: self._close,
            yaml.events.AliasEvent: self._alias,
            yaml.events.DocumentStartEvent: self._document,
        }

    def read(self, parsed: Iterable[yaml.events.Event]) -> None:
        """Build the YAML tree of nodes from the events of the parser.

        Raises:
            StopReadingError: The document is beyond reading on.
        """
        actions = self._actions
        for event in parsed:
            action = actions.get(type(event))
            if action is not None:
                action(event)

    def _document(self, event: Any) -> None:
        self._documents += 1
        position = self._position(event)
        if self._documents > 1:
            self._stop("E008", "a second document starts here", "keep one spec per file", position)
        if event.version is not None and tuple(event.version) != (1, 2):
            shown = ".".join(str(part) for part in event.version)
            mend = "remove the %YAML line: specs are YAML 1.2"
            self._fault("E017", f"the file declares YAML {shown}", mend, position)
        if event.tags:
            self._fault("E012", "YAML tags are not supported", "remove the %TAG line", position)

    def _scalar(self, event: Any) -> None:
        # Called for most events of a large spec, so it is inlined as far as possible.
        start, end = event.start_mark, event.end_mark
        text, style = event.value, event.style
        plain = not style  # None with libyaml, '' with the parser written in Python
        line, before, behind = start.line + 1, start.column, end.column
        if line <= end.line:
            position = (self._file, line, before + 1, 1, 0)
        elif plain:
            # An anchor may precede the text, so count back from its end.
            length = behind - before or 1
            position = (self._file, line, before + 1, length, behind - len(text) + 1)
        else:
            raw = self._text[start.index + 1 : end.index - 1] if style in {'"', "'"} else None
            text_column = before + 2 if raw == text else 0
            position = (self._file, line, before + 1, behind - before or 1, text_column)
        if event.tag is not None:
            self._tag(event.tag, position)
        frame = self._stack[-1] if self._stack else None
        if frame is not None:
            if frame.flow and plain:
                may_be_cut = frame.cut is not None or "(" in text or '"' in text
                if may_be_cut and self._is_cut(frame, text, position):
                    return
            if frame.items is None:
                if frame.key is _EXPECTED:
                    if plain and text in self._keys and text not in frame.keys:
                        frame.key, frame.key_position = text, position
                    else:
                        self._key(frame, text, plain, position)
                    return
                if plain and not text:
                    position = frame.key_position  # nothing is written: point at its key
        value = self._resolved(text, position) if plain and not is_text(text) else text
        # tuple.__new__: the constructor of a named tuple would take longer than all the rest here.
        node = _new(Scalar, (value, position, plain))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1, 0)
        if frame is not None and frame.items is not None and self._values < MOST_VALUES:
            self._values += 1
            frame.items.append(node)
        else:
            self._add(node, 1, 0, counted=False)

    def _resolved(self, text: str, position: Position) -> Any:
        try:
            return resolve(text)
        except NumberRangeError as error:
            mend = "write a number of at most 64 bits, or quote it to make it text"
            self._fault("E016", str(error), mend, position)
            return text

    def _tag(self, tag: str, position: Position) -> None:
        tag = tag.replace("tag:yaml.org,2002:", "!!")
        message = f"YAML tags such as '{short(tag)}' are not supported"
        mend = "remove the tag; quote a value to make it text"
        self._fault("E012", message, mend, (*position[:3], max(1, len(tag)), 0))

    def _is_cut(self, frame: _Frame, text: str, position: Position) -> bool:
        """Return whether a scalar of the YAML tree ends an expression cut in two at a comma.

        Of a list its pieces are taken out again, so that the rest can be checked.
        """
        balance = text.count("(") - text.count(")")
        half_quoted = text.count('"') % 2 == 1
        if frame.cut is None and (balance > 0 or half_quoted):
            frame.cut = position
            frame.cut_at = len(frame.items or ())
        elif frame.cut is not None and (balance < 0 or half_quoted):
            cut, frame.cut = frame.cut, None
            if frame.items is not None:
                del frame.items[frame.cut_at :]
            report = self._stop if frame.items is None else self._fault
            report("E007", "an expression is cut in two at a comma", QUOTING_HINT, cut)
            return True
        return False

    def _key(self, frame: _Frame, text: str, plain: bool, position: Position) -> None:
        frame.key_position = position
        if plain and text == "<<":
            frame.key = _MERGE
            return
        frame.key = _DROPPED
        if plain and text not in self._keys and not isinstance(self._resolved(text, position), str):
            description = f"'{short(text)}'" if text else "nothing"
            mend = "quote it" if text else "write a key before the ':'"
            self._fault("E011", f"a key must be text, found {description}", mend, position)
        elif text in frame.keys:
            first = origin_of(frame.keys[text])
            message = f"duplicate key '{short(text)}' (first at line {first.line})"
            self._fault("E010", message, "remove one of the two", position, text)
        else:
            frame.key = text
            if plain:
                self._keys.add(text)

    def _open(self, event: Any) -> None:
        position = self._position(event)
        if event.tag is not None:
            self._tag(event.tag, position)
        if len(self._stack) >= DEEPEST:
            self._too_deep(position)
        self._values += 1
        if self._values > MOST_VALUES:
            self._count(0, position)
        self._stack.append(_Frame(position, event, self._values - 1))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        position = frame.position
        if frame.flow and event.end_mark.line + 1 == position[1]:
            file, line, column, _, _ = position
            position = (file, line, column, max(1, event.end_mark.column + 1 - column), 0)
        elif frame.keys:
            file, line, column, length, _ = next(iter(frame.keys.values()))
            position = (file, line, column, length, 0)
        node: Node
        if frame.items is not None:
            node = _new(Sequence, (frame.items, position))
        else:
            for merged in frame.merges:
                _merge(frame, merged)
            node = _new(Mapping, (frame.values, frame.keys, position))
        weight = self._values - frame.started
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (node, weight, frame.height)
        self._add(node, weight, frame.height, counted=True)

    def _alias(self, event: Any) -> None:
        position, name = self._position(event), event.anchor
        if self._stack and self._stack[-1].wants_key:
            self._add(Scalar(None, position), 1, 0, counted=False)  # which marks that it is no key
            return
        if any(frame.anchor == name for frame in self._stack):
            mend = "use the alias outside the value of its anchor"
            self._stop("E013", f"'*{short(name)}' would contain itself", mend, position)
        if name not in self._anchors:
            message = f"no anchor '&{short(name)}' before this"
            self._fault("E013", message, "define it above this line", position)
            self._add(Scalar(None, position), 1, 0, counted=False)
            return
        node, weight, height = self._anchors[name]
        if len(self._stack) + height > DEEPEST:
            self._too_deep(position)
        self._count(weight, position)
        self._add(node, weight, height, counted=True)

    def _add(self, node: Node, weight: int, height: int, *, counted: bool) -> None:
        """Add a node to the YAML tree: to the innermost list or mapping that is still open."""
        if not counted:
            self._count(weight, node.position)
        if not self._stack:
            self.root = node
            return
        frame = self._stack[-1]
        if height >= frame.height:
            frame.height = height + 1
        if frame.items is not None:
            frame.items.append(node)
        elif frame.key is _EXPECTED:
            frame.key, frame.key_position = _DROPPED, node.position
            message = "a key must be text, not an alias, a list or a mapping"
            self._fault("E011", message, "write the key as text", node.position)
        else:
            self._put(frame, node)

    def _put(self, frame: _Frame, node: Node) -> None:
        key, frame.key = frame.key, _EXPECTED
        if key is _MERGE:
            self._merge_key(frame, node)
        elif key is not _DROPPED:
            frame.values[key] = node
            frame.keys[key] = frame.key_position

    def _merge_key(self, frame: _Frame, node: Node) -> None:
        sources = node.items if isinstance(node, Sequence) else [node]
        for source in sources:
            if isinstance(source, Mapping):
                frame.merges += (source,)
            else:
                mend = "give it an alias of a mapping, or a list of them; quote '<<' as a plain key"
                self._fault("E013", "'<<' can merge only mappings", mend, frame.key_position)

    def _count(self, values: int, position: Position) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            memory_mb = MOST_VALUES * _VALUE_BYTES / 1e6
            message = (
                f"more than {MOST_VALUES:,} values after expanding all aliases, which would take "
                f"more than {memory_mb:,.0f} MB of memory"
            )
            self._stop("E014", message, "use fewer aliases of large values", position)

    def _too_deep(self, position: Position) -> None:
        self._stop("E015", *TOO_DEEP, position)

    def _position(self, event: Any) -> Position:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if start.line == end.line else 1
        return (self._file, start.line + 1, start.column + 1, max(1, length), 0)

    def _fault(
        self, code: Code, message: str, mend: str, position: Position, key: str = ""
    ) -> None:
        path = self._path()
        shown = path_text((*path, key)) if key else path_text(path)
        self.faults.append(Fault(code, message, mend, origin_of(position), shown))

    def _stop(self, code: Code, message: str, mend: str, position: Position) -> None:
        self._fault(code, message, mend, position)
        raise StopReadingError

    def _path(self) -> Path:
        path: list[str | int] = []
        for frame in self._stack[:12]:  # further in, a path helps less than the line
            if frame.items is not None:
                path.append(len(frame.items))
            elif isinstance(frame.key, str):
                path.append(frame.key)
        return tuple(path)


def _merge(frame: _Frame, merged: Mapping) -> None:
    """Merge the entries of a ``<<`` key into the YAML mapping being built, except keys it has."""
    for key, value in merged.values.items():
        if key not in frame.values:
            frame.values[key] = value
            frame.keys[key] = merged.keys[key]
