"""Parse YAML text to a tree of spans (lines and columns) that can be moved as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from yaml import events

from jobrun.core.lazy_dataclass import dataclass
from jobrun.spec.yaml.parse import parser_events

_End = events.CollectionEndEvent


@dataclass(slots=True)
class Span:
    """The span of a YAML node in the text: where it starts and ends.

    Attributes:
        start: Index of its first character; of a block collection that of its first key or dash.
        end: Index behind its last.
        line: The line of ``start``, from 0.
        column: Its column, from 0.
        last_line: The last line that has something of it.
    """

    start: int
    end: int
    line: int
    column: int
    last_line: int


@dataclass(slots=True)
class Leaf:
    """A YAML scalar or alias, with its span."""

    span: Span
    is_alias: bool = False
    value: str = ""
    is_block: bool = False


@dataclass(slots=True)
class Items:
    """A YAML sequence, with its span."""

    span: Span
    is_flow: bool
    items: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class Entries:
    """A YAML mapping with its span: each key and its value."""

    span: Span
    is_flow: bool
    keys: list[Leaf] = field(default_factory=list)
    values: list[Tree] = field(default_factory=list)


Tree = Leaf | Items | Entries


def tree_of(text: str) -> Tree:
    """Parse YAML text into a tree of spans, to move parts of the text."""
    stream = (one for one in parser_events(text) if isinstance(one, events.NodeEvent | _End))
    return _node(next(stream), stream, text)


def _node(event: Any, stream: Iterator[Any], text: str) -> Tree:
    match event:
        case events.MappingStartEvent():
            mapping = Entries(_span(event), bool(event.flow_style))
            while not isinstance(following := next(stream), _End):
                key = _node(following, stream, text)
                mapping.keys.append(key if isinstance(key, Leaf) else Leaf(key.span))
                mapping.values.append(_node(next(stream), stream, text))
            _close(mapping, following, mapping.keys, mapping.values)
            return mapping
        case events.SequenceStartEvent():
            listed = Items(_span(event), bool(event.flow_style))
            while not isinstance(following := next(stream), _End):
                listed.items.append(_node(following, stream, text))
            if event.anchor is not None and not listed.is_flow and listed.items:
                _move_to_dash(listed, text)
            _close(listed, following, (), listed.items)
            return listed
        case events.AliasEvent():
            return Leaf(_span(event), is_alias=True, value=event.anchor or "")
        case _:
            return _scalar(event, text)


def _close(node: Items | Entries, event: Any, keys: Any, values: list[Tree]) -> None:
    """Complete the span of a mapping or list at its last event; a block ends with its last item."""
    span = node.span
    if node.is_flow:
        span.end, span.last_line = event.end_mark.index, event.end_mark.line
    elif values:
        # With an anchor, the event begins there, and not at what can be moved.
        if keys:
            first = keys[0].span
            span.start, span.line, span.column = first.start, first.line, first.column
        last = values[-1].span
        if keys and keys[-1].span.end > last.end:
            last = keys[-1].span
        span.end, span.last_line = last.end, last.last_line


def _move_to_dash(listed: Items, text: str) -> None:
    at = text.rfind("-", 0, listed.items[0].span.start)
    begin = text.rfind("\n", 0, at) + 1
    span = listed.span
    span.start, span.line, span.column = at, text.count("\n", 0, at), at - begin


def _scalar(event: Any, text: str) -> Leaf:
    span = _span(event)
    is_block = event.style in {"|", ">"}
    if is_block:
        keeps = "+" in text[span.start : text.find("\n", span.start)].partition("#")[0]
        # It ends where the next thing begins; blank lines count only if they are kept.
        body = text[span.start : span.end]
        body = body.removesuffix("\n") if keeps else body.rstrip("\n\t ")
        span.end = span.start + len(body)
        span.last_line = span.line + body.count("\n")
    return Leaf(span, value=event.value, is_block=is_block)


def _span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    return Span(start.index, end.index, start.line, start.column, end.line)
