"""Builds the tree of a document from parser events. Iterative; bounded in depth and size."""

from __future__ import annotations

from typing import Any

from yaml import events

from jobrun.core.errors import Fault
from jobrun.spec.nodes import (
    Mapping,
    Node,
    Path,
    Place,
    Scalar,
    Sequence,
    origin_of,
    path_text,
    short,
)
from jobrun.spec.scalars import NumberRangeError, resolve
from jobrun.spec.syntax import QUOTING_HINT

DEEPEST = 64
# Several times what a spec of 10,000 tasks has; few enough to fit in memory.
MOST_VALUES = 1_000_000

# Keys that no text of a file equals.
_EXPECTED = object()
_DROPPED = object()
_MERGE = object()


class StopReadingError(Exception):
    """The document cannot be read on; the faults say why."""


class _Frame:
    """A list or mapping that is still open."""

    __slots__ = ("anchor", "cut", "cut_at", "flow", "height", "items", "key", "key_place", "keys",
                 "line", "merges", "place", "started", "values")  # fmt: skip

    def __init__(self, *, is_mapping: bool, place: Place, event: Any, started: int) -> None:
        self.place = place
        self.line: int = event.start_mark.line
        self.anchor: str | None = event.anchor
        self.flow: bool = bool(event.flow_style)
        self.started = started
        self.height = 1
        self.items: list[Node] | None = None if is_mapping else []
        self.values: dict[str, Node] = {}
        self.keys: dict[str, Place] = {}
        self.key: Any = _EXPECTED
        self.key_place: Place = place
        self.merges: list[Mapping] = []
        self.cut: Place | None = None
        self.cut_at = 0

    @property
    def wants_key(self) -> bool:
        """Whether what comes next is a key."""
        return self.items is None and self.key is _EXPECTED


class Builder:
    """Takes the events of one document, in order.

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
        self._values = 0
        self._documents = 0
        self._actions = {
            events.ScalarEvent: self._scalar,
            events.SequenceStartEvent: self._open,
            events.MappingStartEvent: self._open,
            events.SequenceEndEvent: self._close,
            events.MappingEndEvent: self._close,
            events.AliasEvent: self._alias,
            events.DocumentStartEvent: self._document,
        }

    def take(self, event: events.Event) -> None:
        """Add one event.

        Raises:
            StopReadingError: The document is beyond reading on.
        """
        action = self._actions.get(type(event))
        if action is not None:
            action(event)

    def _document(self, event: Any) -> None:
        self._documents += 1
        place = self._place(event)
        if self._documents > 1:
            self._stop("E008", "a second document starts here", "keep one spec per file", place)
        if event.version is not None and tuple(event.version) != (1, 2):
            shown = ".".join(str(part) for part in event.version)
            mend = "specs are YAML 1.2: leave the %YAML line out"
            self._fault("E017", f"the file says that it is YAML {shown}", mend, place)
        if event.tags:
            self._fault("E012", "tags are not read", "leave the %TAG line out", place)

    def _scalar(self, event: Any) -> None:
        start, end = event.start_mark, event.end_mark
        text, style = event.value, event.style
        plain = not style  # None with libyaml, '' with the parser written in Python
        line, column = start.line + 1, start.column + 1
        if start.line != end.line:
            place = (self._file, line, column, 1, 0)
        elif plain:
            # An anchor may stand before it, so the text is found from its end.
            place = (self._file, line, column, max(1, end.column - start.column),
                     end.column - len(text) + 1)  # fmt: skip
        else:
            raw = self._text[start.index + 1 : end.index - 1] if style in {'"', "'"} else None
            place = (self._file, line, column, max(1, end.column - start.column),
                     column + 1 if raw == text else 0)  # fmt: skip
        if event.tag is not None:
            self._tag(event.tag, place)
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.flow and plain and self._is_cut(frame, text, place):
            return
        if frame is not None and frame.wants_key:
            self._key(frame, text, plain, place)
            return
        if plain and not text and frame is not None and frame.items is None:
            place = frame.key_place  # nothing is written: point at its key
        node = Scalar(self._resolved(text, place) if plain else text, place, plain)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1, 0)
        self._add(node, 1, 0, counted=False)

    def _resolved(self, text: str, place: Place) -> Any:
        try:
            return resolve(text)
        except NumberRangeError as error:
            mend = "write a number of at most 64 bits, or quote it to make it text"
            self._fault("E016", str(error), mend, place)
            return text

    def _tag(self, tag: str, place: Place) -> None:
        tag = tag.replace("tag:yaml.org,2002:", "!!")
        message = f"tags such as '{short(tag)}' are not read"
        mend = "leave the tag out; quote a value to make it text"
        self._fault("E012", message, mend, (*place[:3], max(1, len(tag)), 0))

    def _is_cut(self, frame: _Frame, text: str, place: Place) -> bool:
        """See an expression that a comma of the list or mapping around it cut in two.

        Of a list its pieces are taken out again, so that the rest can be checked.
        """
        balance = text.count("(") - text.count(")")
        half_quoted = text.count('"') % 2 == 1
        if frame.cut is None and (balance > 0 or half_quoted):
            frame.cut = place
            frame.cut_at = len(frame.items or ())
        elif frame.cut is not None and (balance < 0 or half_quoted):
            cut, frame.cut = frame.cut, None
            if frame.items is not None:
                del frame.items[frame.cut_at :]
            report = self._stop if frame.items is None else self._fault
            report("E007", "an expression is cut in two at a comma", QUOTING_HINT, cut)
            return True
        return False

    def _key(self, frame: _Frame, text: str, plain: bool, place: Place) -> None:
        frame.key_place = place
        if plain and text == "<<":
            frame.key = _MERGE
            return
        frame.key = _DROPPED
        if plain and not isinstance(self._resolved(text, place), str):
            what = f"'{short(text)}'" if text else "nothing"
            mend = "quote it" if text else "write a key before the ':'"
            self._fault("E011", f"a key must be text, found {what}", mend, place)
        elif text in frame.keys:
            first = origin_of(frame.keys[text])
            message = f"duplicate key '{short(text)}' (first at line {first.line})"
            self._fault("E010", message, "keep one of the two", place, text)
        else:
            frame.key = text

    def _open(self, event: Any) -> None:
        place = self._place(event)
        if event.tag is not None:
            self._tag(event.tag, place)
        if len(self._stack) >= DEEPEST:
            self._too_deep(place)
        self._count(1, place)
        is_mapping = isinstance(event, events.MappingStartEvent)
        self._stack.append(
            _Frame(is_mapping=is_mapping, place=place, event=event, started=self._values - 1)
        )

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        place = frame.place
        if frame.flow and event.end_mark.line == frame.line:
            place = (*place[:3], max(1, event.end_mark.column + 1 - place[2]), 0)
        elif frame.keys:
            place = (*next(iter(frame.keys.values()))[:4], 0)
        node: Node
        if frame.items is not None:
            node = Sequence(frame.items, place)
        else:
            for merged in frame.merges:
                _merge(frame, merged)
            node = Mapping(frame.values, frame.keys, place)
        weight = self._values - frame.started
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (node, weight, frame.height)
        self._add(node, weight, frame.height, counted=True)

    def _alias(self, event: Any) -> None:
        place, name = self._place(event), event.anchor
        if self._stack and self._stack[-1].wants_key:
            self._add(Scalar(None, place), 1, 0, counted=False)  # which tells that it is no key
            return
        if any(frame.anchor == name for frame in self._stack):
            mend = "an alias can only name an anchor whose value has ended"
            self._stop("E013", f"'*{short(name)}' would contain itself", mend, place)
        if name not in self._anchors:
            self._fault("E013", f"no anchor '&{short(name)}' before this", "define it above", place)
            self._add(Scalar(None, place), 1, 0, counted=False)
            return
        node, weight, height = self._anchors[name]
        if len(self._stack) + height > DEEPEST:
            self._too_deep(place)
        self._count(weight, place)
        self._add(node, weight, height, counted=True)

    def _add(self, node: Node, weight: int, height: int, *, counted: bool) -> None:
        """Put a finished value where the innermost open list or mapping wants it."""
        if not counted:
            self._count(weight, node.place)
        if not self._stack:
            self.root = node
            return
        frame = self._stack[-1]
        frame.height = max(frame.height, height + 1)
        if frame.items is not None:
            frame.items.append(node)
        elif frame.key is _EXPECTED:
            frame.key, frame.key_place = _DROPPED, node.place
            message = "a key must be text, not an alias, a list or a mapping"
            self._fault("E011", message, "write the key as text", node.place)
        else:
            self._put(frame, node)

    def _put(self, frame: _Frame, node: Node) -> None:
        key, frame.key = frame.key, _EXPECTED
        if key is _MERGE:
            self._merge_key(frame, node)
        elif key is not _DROPPED:
            frame.values[key] = node
            frame.keys[key] = frame.key_place

    def _merge_key(self, frame: _Frame, node: Node) -> None:
        sources = node.items if isinstance(node, Sequence) else [node]
        for source in sources:
            if isinstance(source, Mapping):
                frame.merges.append(source)
            else:
                mend = "give it an alias of a mapping, or a list of them; quote '<<' as a plain key"
                self._fault("E013", "'<<' merges mappings only", mend, frame.key_place)

    def _count(self, values: int, place: Place) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            message = f"more than {MOST_VALUES:,} values once all aliases are followed"
            self._stop("E014", message, "use fewer aliases of large values", place)

    def _too_deep(self, place: Place) -> None:
        message = f"nested more than {DEEPEST} levels deep"
        self._stop("E015", message, "use a net for the inner steps", place)

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if start.line == end.line else 1
        return (self._file, start.line + 1, start.column + 1, max(1, length), 0)

    def _fault(self, code: str, message: str, mend: str, place: Place, key: str = "") -> None:
        path = self._path()
        shown = path_text((*path, key)) if key else path_text(path)
        self.faults.append(Fault(code, message, mend, origin_of(place), shown))

    def _stop(self, code: str, message: str, mend: str, place: Place) -> None:
        self._fault(code, message, mend, place)
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
    """What the mapping itself says wins, then the first of the merged ones."""
    for key, value in merged.values.items():
        if key not in frame.values:
            frame.values[key] = value
            frame.keys[key] = merged.keys[key]
