"""Write, read and trim the logs of a run: events, metrics, what it uses, output of tasks.

An event is one line of JSON. ``RunLogs`` is a listener that writes lines as they come. It never
raises and never fails a run: what cannot be written is counted by file in ``lost.json``, where
``jobrun status`` finds it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import operator
import os
import threading
import time
import typing
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, get_args

from msgspec import Struct, field, to_builtins

from jobrun.core.errors import CheckpointError, JobrunError
from jobrun.core.events import (
    EpochEnded,
    Event,
    GroupRetried,
    GroupStarted,
    Logged,
    Measured,
    NodeReplaced,
    RunStarted,
    TaskLimited,
    UsageMeasured,
)
from jobrun.core.files.disk import disk_faults, open_append, replace_file
from jobrun.core.files.json_files import (
    LineFile,
    build,
    build_encoder,
    find_last_line,
    parse_json,
    read_json,
    read_lines,
    read_tail,
    write_json,
)
from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.run_directories import EVENTS_NAME, METRICS_NAME, USAGE_NAME

if TYPE_CHECKING:
    from jobrun.core.captured_output import LeftOutput
    from jobrun.graph.types import Job

# The most bytes that one start writes to the log of a task; metrics and events have no limit.
LOG_LIMIT_BYTES = 256 << 20
LOST_NAME = "lost.json"
_PIECE_BYTES = 1 << 20
_EPOCH = lazy_pattern(rb'"epoch": (\d{1,18})[,}]')
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


class LostLines(Struct, frozen=True):
    """Lines of a file that were not written; ``why`` is that of the last."""

    lines: int
    why: str


class _LostForm(Struct, frozen=True):
    files: Mapping[str, LostLines] = field(default_factory=dict)


def read_losses(run: Path) -> dict[str, LostLines]:
    """Read from ``lost.json`` how many lines each of a run's logs has lost, and why."""
    try:
        return dict(build(_LostForm, read_json(run / LOST_NAME)).files)
    except (OSError, ValueError):
        return {}


def add_loss(run: Path, name: str, lines: int, why: str) -> None:
    """Add lost lines of one of a run's logs to ``lost.json``; ignore write errors."""
    total = read_losses(run)
    before = total[name].lines if name in total else 0
    _write_losses(run, {**total, name: LostLines(before + lines, why)})


def _write_losses(run: Path, total: Mapping[str, LostLines]) -> None:
    with contextlib.suppress(OSError):
        write_json(run / LOST_NAME, to_builtins(_LostForm(total)))


def describe_losses(lost: Mapping[str, LostLines]) -> tuple[str, ...]:
    """Describe lost lines of logs: ``3 lines of metrics.jsonl (No space left on device)``."""
    return tuple(
        f"{lost_lines.lines} line{'s' if lost_lines.lines > 1 else ''} of {name} ({lost_lines.why})"
        for name, lost_lines in lost.items()
    )


class RunLogs:
    """Writes into a run's ``metrics.jsonl``, ``events.jsonl``, ``usage.jsonl`` and ``logs/``.

    Use it as a listener.

    Attributes:
        unreported: Messages about lost lines that ``take_losses`` will return.
    """

    def __init__(self, run: Path, job: Job, generation: int = 0) -> None:
        self._run = run
        self._metrics_path = run / METRICS_NAME
        self._generation = generation
        self._lock = threading.Lock()
        self._sinks: dict[Path, _LineFile] = {}
        self._metrics = self._sink(self._metrics_path, math.inf)
        self._events = self._sink(run / EVENTS_NAME, math.inf)
        self._usage = self._sink(run / USAGE_NAME, math.inf)
        # By group, where its lines begin in the metrics, in case a retry measures them again.
        self._begun: dict[str, int] = {}
        self._tally = MetricsTally()
        self._retried = {
            group.name for group in job.groups if any(task.retry for task in group.tasks)
        }
        self._closed = False
        tasks = [task for group in job.groups for task in group.tasks]
        nodes = Counter(task.name for task in tasks)
        self._spread = {task.name for task in tasks if nodes[task.name] > 1}
        self._several = {task.name for task in tasks if task.instances > 1}
        # Losses of this start; the losses of earlier starts are read once, when these are added.
        self._lost: dict[str, LostLines] = {}
        self._lost_before = functools.cache(lambda: read_losses(run))
        self._is_lost_noted = True
        self.unreported: list[str] = []

    def __call__(self, event: Event) -> None:
        """Write an event to each of the run's logs in which it belongs. Thread-safe."""
        match event:
            case Logged():
                sink = self._sink(self._log_path(event), LOG_LIMIT_BYTES)
                self._append(sink, self._log_line(event))
            case TaskLimited():
                pass
            case Measured():
                line = event_json(event, self._generation)
                if self._append(self._metrics, line):
                    self._tally.add(event.epoch, line)
            case UsageMeasured():
                self._append(self._usage, event_json(event, self._generation))
            case _:
                self._cut_metrics(event)
                self._append(self._events, event_json(event, self._generation))
                if isinstance(event, EpochEnded) and not self._is_lost_noted:
                    self._record_losses()

    def _cut_metrics(self, event: Event) -> None:
        """Remove the metrics of an attempt that an event says is repeated, and count what stays."""
        match event:
            case GroupStarted() if event.group in self._retried:
                self._begun[event.group] = _size_bytes(self._metrics_path)
            case GroupRetried():
                self._drop_attempt(self._begun.get(event.group, 0), event.epoch)
            case NodeReplaced():
                if not event.records:
                    # A restart within an epoch has already cut them there.
                    self._drop_later_epochs(event.epoch)
                self._tally.recount(self._metrics_path, event.epoch)
            case RunStarted():
                self._tally.recount(self._metrics_path, event.epoch)
            case _:
                pass

    def close(self) -> None:
        """Close all log files; may be called twice. Later events are dropped."""
        with self._lock:
            self._closed = True
            for sink in tuple(self._sinks.values()):
                sink.close()
        if not self._is_lost_noted:
            self._record_losses()

    def take_losses(self) -> list[str]:
        """Return, once for each log file, a message that it has begun to lose lines."""
        with self._lock:
            messages, self.unreported = self.unreported, []
        return messages

    def count_metrics(self, epoch: int) -> tuple[int, int]:
        """Return the number and checksum of the metrics lines up to an epoch, since the last call.

        Any thread.
        """
        return self._tally.take(epoch)

    def _drop_attempt(self, start: int, epoch: int) -> None:
        """Drop from the run's logs the metrics of a failed attempt at an epoch's tasks."""
        with self._lock:
            try:
                self._metrics.close()
                _set_aside(self._run, start)
            except OSError as error:
                self._lose(self._metrics, error)
        self._tally.recount(self._metrics_path, epoch - 1)

    def _drop_later_epochs(self, epoch: int) -> None:
        """Drop from the log ``metrics.jsonl`` the metrics of epochs after a given one."""
        with self._lock:
            try:
                # The open file is about to be replaced.
                self._metrics.close()
                trim_metrics(self._run, epoch)
            except (OSError, JobrunError) as error:
                self._lose(self._metrics, error)

    def _append(self, sink: _LineFile, line: str) -> bool:
        """Append a line to one of the run's logs; return whether it is there as a whole."""
        with self._lock:
            if self._closed:
                return False
            try:
                sink.write(line)
            except OSError as error:
                self._lose(sink, error)
                return False
        return True

    def _lose(self, sink: _LineFile, error: Exception) -> None:
        name = sink.file.path.relative_to(self._run).as_posix()
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        if name not in self._lost:
            self.unreported.append(f"lines of {name} are lost from now on: {why}")
        before = self._lost[name].lines if name in self._lost else 0
        self._lost[name] = LostLines(before + 1, why)
        self._is_lost_noted = False

    def _record_losses(self) -> None:
        """Write how many lines each log has lost to ``lost.json``; ignore write errors."""
        with self._lock:
            total = dict(self._lost_before())
            for name, lost_lines in self._lost.items():
                before = total[name].lines if name in total else 0
                total[name] = LostLines(before + lost_lines.lines, lost_lines.why)
            _write_losses(self._run, total)
            self._is_lost_noted = True

    def _sink(self, path: Path, most_bytes: float) -> _LineFile:
        return self._sinks.get(path) or self._sinks.setdefault(
            path, _LineFile(LineFile(path), most_bytes)
        )

    def _log_path(self, event: Logged) -> Path:
        instance = f".{event.instance}" if event.task in self._several else ""
        return self._run / "logs" / f"{event.task or 'job'}{instance}.log"

    def _log_line(self, event: Logged) -> str:
        node = f" {event.node}" if event.task in self._spread else ""
        return f"[{event.epoch}{node}] {event.text}"


class MetricsTally:
    """Counts and checksums the lines of ``metrics.jsonl`` by epoch, for the journal.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[int, tuple[int, int]] = {}

    def add(self, epoch: int, line: str) -> None:
        """Add a line, without its line feed, to the tally of an epoch's metrics."""
        checksum = zlib.crc32(line.encode("utf-8", "backslashreplace"))
        with self._lock:
            lines, sum_ = self._counted.get(epoch, (0, 0))
            self._counted[epoch] = lines + 1, sum_ + checksum

    def take(self, epoch: int) -> tuple[int, int]:
        """Return the tally of metrics up to an epoch: number of lines, sum of their CRC-32."""
        lines = sum_ = 0
        with self._lock:
            for counted_epoch, (count, checksum) in [*self._counted.items()]:
                if counted_epoch <= epoch:
                    lines, sum_ = lines + count, sum_ + checksum
                    del self._counted[counted_epoch]
        return lines, sum_ % (1 << 32)

    def recount(self, path: Path, epoch: int) -> None:
        """Count again the lines of epochs after a given one; they stand at the file's end."""
        size_bytes = _PIECE_BYTES
        try:
            while True:
                lines = read_tail(path, size_bytes)
                if size_bytes >= _size_bytes(path) or any(
                    epoch_of_line(line) <= epoch for line in lines[1:]
                ):
                    break
                size_bytes *= 4
        except OSError:
            lines = []
        with self._lock:
            self._counted = {
                counted_epoch: tally
                for counted_epoch, tally in self._counted.items()
                if counted_epoch <= epoch
            }
        for line in lines:
            if epoch < (line_epoch := epoch_of_line(line)) < math.inf:
                self.add(int(line_epoch), line.decode("utf-8", "backslashreplace"))


def append_left_output(run: Path, outputs: Iterable[LeftOutput]) -> None:
    """Append to the logs of a run's tasks what a process printed just before it crashed."""
    for output in outputs:
        path = run / "logs" / f"{output.task}.{output.instance}.log"
        if not (output.instance or path.exists()):
            path = path.with_name(f"{output.task}.log")
        # Errors are ignored: the error that explains the crash is more important than these lines.
        with contextlib.suppress(OSError, JobrunError), closing(LineFile(path)) as file:
            for line in output.lines if output.task else ():
                file.append(f"[{output.epoch}] {line}\n".encode("utf-8", "backslashreplace"))


class _LineFile(Struct):
    """A log file that lines are added to, up to a limit; it is opened for the first line."""

    file: LineFile
    most_bytes: float
    # Lines written by this process.
    written_bytes: int = 0

    def write(self, line: str) -> None:
        """Append a line to a log file of the run; raise if the file has reached its size limit.

        Raises:
            OSError: The system refuses, or the file is full.
        """
        if self.written_bytes > self.most_bytes:
            raise OSError(errno.EFBIG, _full_words(self.most_bytes))
        # Surrogates: the output of a program need not be valid text.
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        self.written_bytes += len(data)
        if is_full := self.written_bytes > self.most_bytes:
            data = f"({_full_words(self.most_bytes)}; what came after this is not kept)\n".encode()
        self.file.append(data)
        if is_full:
            raise OSError(errno.EFBIG, _full_words(self.most_bytes))

    def close(self) -> None:
        """Close the log file; a later line opens it again."""
        self.file.close()


def _full_words(most_bytes: float) -> str:
    return f"this log is full at {most_bytes / (1 << 20):g} MiB"


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _set_aside(run: Path, start: int) -> None:
    path, aside = run / METRICS_NAME, run / "superseded" / METRICS_NAME
    if _size_bytes(path) <= start:
        return
    import shutil  # noqa: PLC0415 - only after metrics of epochs that were lost

    aside.parent.mkdir(exist_ok=True)
    with (
        os.fdopen(open_append(path), "rb+") as file,
        os.fdopen(open_append(aside), "ab") as aside_file,
    ):
        file.seek(start)
        shutil.copyfileobj(file, aside_file, _PIECE_BYTES)
        aside_file.flush()
        # O_APPEND: later lines go to the new end.
        file.truncate(start)


def cut_metrics(run: Path, size_bytes: int) -> None:
    """Cut the log ``metrics.jsonl`` to a length in bytes; move the rest to ``superseded/``.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    with disk_faults("E354", f"trim {METRICS_NAME}"), unless_irregular():
        _set_aside(run, size_bytes)


def trim_metrics(run: Path, epoch: int) -> int:
    """Move lines of epochs after a given one out of ``metrics.jsonl``; return how many.

    A resumed run measures these epochs again; what the lost ones measured is kept in
    ``superseded/metrics.jsonl``. Lines that cannot be read, such as a torn last one, go with them.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    path, aside = run / METRICS_NAME, run / "superseded" / METRICS_NAME
    with disk_faults("E354", f"trim {METRICS_NAME}"), unless_irregular():
        count = sum(epoch_of_line(line) > epoch for line in read_lines(path))
        if not count:
            return 0
        aside.parent.mkdir(exist_ok=True)

        def write_kept(remaining: IO[bytes]) -> None:
            with os.fdopen(open_append(aside), "ab") as over:
                for line in read_lines(path):
                    (remaining if epoch_of_line(line) <= epoch else over).write(line)

        replace_file(str(path), write_kept)
        return count
    return 0


@contextlib.contextmanager
def unless_irregular() -> Iterator[None]:
    """Ignore in the ``with`` block that a log of the run is missing or no regular file."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def read_last_usage(run: Path) -> UsageMeasured | None:
    """Read the last line of the log ``usage.jsonl`` as an event; return None without one."""
    mark = b'{"event": "UsageMeasured"'
    try:
        line = find_last_line(run / USAGE_NAME, mark)
        events = list(read_events([line], (UsageMeasured,)))
        if line and not events:
            # The last one is torn: a kill came while it was written.
            events = list(read_events(read_tail(run / USAGE_NAME, _PIECE_BYTES), (UsageMeasured,)))
    except OSError:
        return None
    return events[-1].event if events else None


def epoch_of_line(line: bytes) -> float:
    """Return the epoch in a line of the metrics log; infinity if the line is incomplete."""
    match = _EPOCH.search(line)
    return int(match[1]) if match and line.rstrip(b"\n").endswith(b"}") else math.inf


class RecordedEvent(Struct, Generic[E_co], frozen=True):
    """An event as it was recorded.

    Attributes:
        at: When; with a time zone.
        generation: Of the run, then.
    """

    event: E_co
    at: datetime
    generation: int = 0


def event_json(event: Event, generation: int = 0) -> str:
    """Render an event as one line of a log: JSON with the event's name and the time.

    NaN and infinity are text, and so are integers of more than 4000 digits: ``"0x…"``, all of it.
    """
    kind: Any = type(event)
    names, get = _fields_of(kind)
    fields = dict(zip(names, get(event), strict=True))
    try:
        text = _encode(fields)
    except ValueError:
        text = _encode(_finite(fields))
    second, ms = divmod(time.time_ns() // 1_000_000, 1_000)
    at = f"{_second_text(second)}.{ms:03d}+00:00"
    return f'{{"event": "{kind.__name__}", "time": "{at}", "generation": {generation}, {text[1:]}'


@functools.lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    """Return the time of an event, in seconds since 1970, as text: ``2026-01-31T23:59:59``."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:-6]


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
            recorded = parse_event(line)
        except ValueError:
            if damaged is not None:
                damaged()
            continue
        if isinstance(recorded.event, kinds):
            yield typing.cast("RecordedEvent[E]", recorded)


def read_values(
    lines: Iterable[bytes], damaged: Callable[[], None]
) -> Iterator[tuple[str, int, float | int | bool | str]]:
    """Read the metrics in lines of the log ``metrics.jsonl``; yield name, epoch and value.

    Args:
        lines: Of the file.
        damaged: Is called for each line that cannot be read.
    """
    names: dict[tuple[bytes | Any, ...], str] = {}
    for line in lines:
        # Fast path: there may be millions of lines, and parsing them as JSON takes several times
        # as long.
        match = _MEASURED.fullmatch(line)
        value = _parse_number(*match.group(2, 3, 4)) if match else None
        if match is not None and value is not None:
            key = match.group(1, 6, 8)
            name = names.get(key)
            if name is not None:
                yield name, int(match[5]), value
                continue
        for recorded in read_events((line,), (Measured,), damaged):
            if match is not None and len(names) < _MOST_NAMES:
                names[match.group(1, 6, 8)] = metric_name(recorded.event)
            yield metric_name(recorded.event), recorded.event.epoch, recorded.event.value


def _parse_number(text: bytes, fraction: bytes | None, exponent: bytes | None) -> float | None:
    """Parse a metric's number in a line of the metrics log; return None if it is too large."""
    if fraction is None and exponent is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


def metric_name(event: Measured) -> str:
    """Return a logged metric's name with its task: ``fit.2.loss``, of instance 2 of ``fit``.

    >>> metric_name(Measured("loss", 0.5, 1)), metric_name(Measured("loss", 0.5, 1, "fit", "", 2))
    ('loss', 'fit.2.loss')
    """
    if not event.task:
        return event.name
    instance = f".{event.instance}" if event.instance else ""
    return f"{event.task}{instance}.{event.name}"


def unreadable_file_error(path: Path, error: OSError) -> CheckpointError:
    """Build the error for a run's log file that exists and cannot be read."""
    return CheckpointError.of(
        "E470",
        f"cannot read {path}: {error.strerror or error}",
        "replace it by a regular file with its content, or remove it",
    )


def _plain(value: Any) -> Any:
    """Convert a value in an event for JSON: a struct to a dict, any other to its text."""
    if not isinstance(value, Struct):
        return str(value)
    kind: Any = type(value)
    names, get = _fields_of(kind)
    return dict(zip(names, get(value), strict=True))


@functools.cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return an event's field names for a log line, and a function that reads the values."""
    names: tuple[str, ...] = kind.__struct_fields__
    if len(names) > 1:
        return names, operator.attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


_encode = build_encoder(default=_plain, ensure_ascii=False)


def _finite(value: Any) -> Any:
    """Replace NaN, infinity and long integers, which JSON lacks, by text in an event line."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Struct):
        return _finite(_plain(value))
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(float(value))
    return integer_hex(value) if is_long(value) else value
