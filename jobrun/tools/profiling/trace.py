"""What was measured, in the format of Chrome's tracing page, which Perfetto reads too.

Two pictures: what ran when, thread by thread; and below it all runs of each step added up, as
flames, where width is time and what is inside stands below. Pure; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobrun.tools.profiling.table import StepRow, parents

if TYPE_CHECKING:
    from jobrun.runtime.meter import BlockTime

_RUN, _SUM = 1, 2
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of the run itself: a group, a save. In seconds of the process's clock."""

    name: str
    start: float
    end: float


def trace_of(
    times: Iterable[BlockTime], bars: Iterable[Bar], steps: Sequence[StepRow], started: float
) -> dict[str, Any]:
    """The document.

    Args:
        times: Of all blocks.
        bars: Of the run itself.
        steps: All steps, in any order.
        started: The time that is shown as 0.
    """
    times = tuple(times)
    threads = _threads(times)
    events: list[dict[str, Any]] = [
        _named("process_name", _RUN, 0, "what ran when"),
        _named("process_name", _SUM, 0, "all runs of each step added up"),
        _named("thread_name", _RUN, 0, "run"),
    ]
    events += [_named("thread_name", _RUN, tid, f"thread {tid}") for tid in threads.values()]
    events += [_bar(one.name, "run", one.start - started, one.end - one.start, 0) for one in bars]
    for block in times:
        owner = block.owner
        for span in block.spans:
            where = {"node": owner.node, "instance": owner.instance, "epoch": span.epoch}
            event = _bar(
                block.path or f"{owner.group}/{owner.task}", "block", span.start - started,
                span.end - span.start, threads[span.thread],
            )  # fmt: skip
            events.append(event | {"args": where})
    return {"traceEvents": [*events, *_flames(steps)], "displayTimeUnit": "ms"}


def _threads(times: Iterable[BlockTime]) -> dict[int, int]:
    """Small numbers for threads, in the order in which they were first used."""
    spans = sorted(span for block in times for span in block.spans)
    found: dict[int, int] = {}
    for span in spans:
        found.setdefault(span.thread, len(found) + 1)
    return found


def _flames(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Each step below the one that it is in, side by side in the order of the spec."""
    around = parents(row.path for row in steps)
    inside: dict[str, list[StepRow]] = {}
    for row in steps:
        inside.setdefault(around[row.path], []).append(row)
    events: list[dict[str, Any]] = []

    def place(rows: list[StepRow], start: float) -> None:
        for row in sorted(rows, key=lambda one: (one.line, one.path)):
            within = inside.get(row.path, [])
            wide = max(row.total_s, row.seconds + sum(one.total_s for one in within))
            event = _bar(f"{row.path}  {row.label}", "step", start, wide, 0, _SUM)
            events.append(event | {"args": {"calls": row.calls, "line": row.line}})
            place(within, start)
            start += wide

    place(inside.get("", []), 0.0)
    return events


def _bar(
    name: str, category: str, start: float, seconds: float, thread: int, process: int = _RUN
) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread,
        "ts": round(start * _MICROSECONDS, 3), "dur": round(seconds * _MICROSECONDS, 3),
    }  # fmt: skip


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
