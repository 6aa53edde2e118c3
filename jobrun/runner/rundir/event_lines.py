"""Render events as lines of ``events.jsonl`` and ``metrics.jsonl``, and parse them."""

from __future__ import annotations

import functools
import math
import operator
import typing
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from jobrun.core.errors import CheckpointError
from jobrun.core.events import Event, Measured
from jobrun.core.files.json_files import build, build_encoder, parse_json
from jobrun.core.lazy_dataclass import dataclass, field_types, is_dataclass
from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.core.text.patterns import lazy_pattern

_MOST_NAMES = 10_000
E = TypeVar("E", bound=Event)
E_co = TypeVar("E_co", covariant=True)
EVENTS: tuple[Any, ...] = get_args(Event)
_KINDS = {kind.__name__: kind for kind in EVENTS}
# A line begins with the name of its event.
_NAME = lazy_pattern(rb'\{"event": ("[A-Za-z]+")')
# A line of metrics.jsonl with an ordinary number, as ``event_json`` renders it.
_TEXT = rb'"([^"\\\x00-\x1f]*)"'
_NUMBER = rb"(-?(?:0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d+)?)"
_MEASURED = lazy_pattern(
    rb'\{"event": "Measured", "time": "\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T'
    rb'(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{3})?\+00:00", "generation": (?:0|[1-9]\d{0,8}), '
    rb'"name": ' + _TEXT + rb', "value": ' + _NUMBER + rb', "epoch": (0|[1-9]\d{0,17}), '
    rb'"task": ' + _TEXT + rb', "node": ' + _TEXT + rb', "instance": (0|[1-9]\d{0,8})\}\n?'
)


@dataclass(frozen=True, slots=True)
class RecordedEvent(Generic[E_co]):
    """An event as it was recorded.

    Attributes:
        at: When; with a time zone.
        generation: Of the run, then.
    """

    event: E_co
    at: datetime
    generation: int = 0


def event_json(event: Event, generation: int = 0) -> str:
    """Render an event as one line of JSON, with its name and the time.

    NaN and infinity are text, and so are integers of more than 4000 digits: ``"0x…"``, all of it.
    """
    kind: Any = type(event)
    names, get = _fields_of(kind)
    fields = dict(zip(names, get(event), strict=True))
    try:
        text = _encode(fields)
    except ValueError:
        text = _encode(_finite(fields))
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    head = f'"event": "{kind.__name__}", "time": "{at}", "generation": {generation}'
    return f"{{{head}, {text[1:]}"


def parse_event(line: bytes) -> RecordedEvent[Event]:
    """Parse a line of ``events.jsonl`` that ``event_json`` rendered.

    Raises:
        ValueError: It is torn, or no event of this version, or a field is not of its type.
    """
    content = parse_json(line)
    name = content.get("event") if isinstance(content, dict) else None
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError("it is no event")
    at = datetime.fromisoformat(str(content.get("time")))
    if at.tzinfo is None:
        raise ValueError("field 'time' has no time zone")
    generation = content.get("generation", 0)
    return RecordedEvent(
        build(_KINDS[name], content), at, generation if type(generation) is int else 0
    )


def read_events(
    lines: Iterable[bytes],
    kinds: tuple[type[E], ...] = EVENTS,
    damaged: Callable[[], None] | None = None,
) -> Iterator[RecordedEvent[E]]:
    """Read from ``events.jsonl`` the events of given classes, without parsing other lines.

    Args:
        lines: Of the file.
        kinds: The wanted ones.
        damaged: Is called for each line that cannot be read.
    """
    names = {f'"{kind.__name__}"'.encode() for kind in kinds}
    others = {f'"{kind.__name__}"'.encode() for kind in EVENTS} - names
    for line in lines:
        named = _NAME.match(line)
        if named and named[1] in others:
            continue
        try:
            found = parse_event(line)
        except ValueError:
            if damaged is not None:
                damaged()
            continue
        if isinstance(found.event, kinds):
            yield typing.cast("RecordedEvent[E]", found)


def read_values(
    lines: Iterable[bytes], damaged: Callable[[], None]
) -> Iterator[tuple[str, int, float | int | bool | str]]:
    """Read the ``Measured`` events in lines of ``metrics.jsonl``; yield name, epoch and value.

    Args:
        lines: Of the file.
        damaged: Is called for each line that cannot be read.
    """
    names: dict[tuple[bytes | Any, ...], str] = {}
    for line in lines:
        # There may be millions of lines, and a parse of each as any JSON takes several times as
        # long.
        found = _MEASURED.fullmatch(line)
        value = _parse_number(*found.group(2, 3, 4)) if found else None
        if found is not None and value is not None:
            key = found.group(1, 6, 8)
            name = names.get(key)
            if name is not None:
                yield name, int(found[5]), value
                continue
        for one in read_events((line,), (Measured,), damaged):
            if found is not None and len(names) < _MOST_NAMES:
                names[found.group(1, 6, 8)] = metric_name(one.event)
            yield metric_name(one.event), one.event.epoch, one.event.value


def _parse_number(text: bytes, fraction: bytes | None, exponent: bytes | None) -> float | None:
    """Parse the metric's number in a ``Measured`` line; return None if it is not finite."""
    if fraction is None and exponent is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


def metric_name(one: Measured) -> str:
    """Return the name of the metric in a ``Measured`` event, with its task: ``fit.2.loss``.

    >>> metric_name(Measured("loss", 0.5, 1)), metric_name(Measured("loss", 0.5, 1, "fit", "", 2))
    ('loss', 'fit.2.loss')
    """
    if not one.task:
        return one.name
    instance = f".{one.instance}" if one.instance else ""
    return f"{one.task}{instance}.{one.name}"


def unreadable_file_error(path: Path, error: OSError) -> CheckpointError:
    """Build the error for a file of event lines that exists and cannot be read."""
    return CheckpointError.of(
        "E470",
        f"cannot read {path}: {error.strerror or error}",
        "replace it by a regular file with its content, or remove it",
    )


def _plain(value: Any) -> Any:
    """Convert a value in an event for JSON: a dataclass to a dict, any other to its text."""
    if not is_dataclass(type(value)):
        return str(value)
    kind: Any = type(value)
    names, get = _fields_of(kind)
    return dict(zip(names, get(value), strict=True))


@functools.cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return the field names of an event's dataclass, and a function that reads the values."""
    names = tuple(field_types(kind))
    if len(names) > 1:
        return names, operator.attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


_encode = build_encoder(default=_plain, ensure_ascii=False)


def _finite(value: Any) -> Any:
    """Replace NaN, infinity and long integers, which JSON lacks, by text in an event line."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if is_dataclass(type(value)):
        return _finite(_plain(value))
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(float(value))
    return integer_hex(value) if is_long(value) else value
