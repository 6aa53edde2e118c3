"""Render profiled times as a Chrome trace, which Perfetto reads too.

Pictures one below the other: what the run did; what ran when on each node, thread by thread; and
all runs of each step added up, as flames, where width is time and callees are drawn below their
callers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobrun.core.lazy_dataclass import dataclass
from jobrun.tools.profile.table import StepRow, parents

if TYPE_CHECKING:
    from jobrun.runtime.codegen.meter_protocol import BlockTime

_RUN, _SUM, _FIRST_NODE = 1, 2, 3
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the trace for a part of the run itself: a group, a save."""

    name: str
    start: float
    end: float


def build_trace(
    times: Iterable[BlockTime], bars: Iterable[Bar], steps: Sequence[StepRow], started: float
) -> dict[str, Any]:
    """Build the Chrome trace document of a profile.

    Args:
        times: Of all blocks.
        bars: Of the run itself.
        steps: All steps, in any order.
        started: The time that is shown as 0.
    """
    times = tuple(times)
    lanes = _lanes(times)
    threads = _threads(times)
    events: list[dict[str, Any]] = [
        _named("process_name", _RUN, 0, "run"),
        _named("thread_name", _RUN, 0, "groups and saves"),
        *(_named("process_name", lane, 0, f"node {node}") for node, lane in lanes.items()),
        _named("process_name", _SUM, 0, "all runs of each step added up"),
        *(_placed(lane, place) for place, lane in enumerate((_RUN, *lanes.values(), _SUM))),
    ]
    events += [
        _named("thread_name", lanes[node], tid, f"thread {tid}")
        for (node, _), tid in threads.items()
    ]
    events += [_bar(one.name, "run", one.start - started, one.end - one.start, 0) for one in bars]
    for block in times:
        node, instance = block.owner.node, block.owner.instance
        name = block.path or f"{block.owner.group}/{block.owner.task}"
        for span in block.spans:
            start, seconds = span.start - started, span.end - span.start
            event = _bar(name, "block", start, seconds, threads[node, span.thread], lanes[node])
            where = {"node": node, "instance": instance, "epoch": span.epoch}
            events.append(event | {"args": where})
    return {"traceEvents": [*events, *_flames(steps)], "displayTimeUnit": "ms"}


def _lanes(times: Iterable[BlockTime]) -> dict[str, int]:
    """Assign a process number of the trace to each node, in the order of their names."""
    nodes = {block.owner.node for block in times if block.spans}
    # trainer_2 before trainer_10.
    ordered = sorted(nodes, key=lambda node: (len(node), node))
    return {node: number for number, node in enumerate(ordered, _FIRST_NODE)}


def _threads(times: Iterable[BlockTime]) -> dict[tuple[str, int], int]:
    """Assign each thread of a node a number in the trace, in the order of first use."""
    spans = sorted((span, block.owner.node) for block in times for span in block.spans)
    found: dict[tuple[str, int], int] = {}
    counts: Counter[str] = Counter()
    for span, node in spans:
        if (node, span.thread) not in found:
            counts[node] += 1
            found[node, span.thread] = counts[node]
    return found


def _flames(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Convert profiled steps to nested trace events, each inside the step that contains it."""
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
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": round(start * _MICROSECONDS, 3),
        "dur": round(seconds * _MICROSECONDS, 3),
    }


def _placed(process: int, place: int) -> dict[str, Any]:
    """Build the trace event by which a viewer orders the processes."""
    return {
        "ph": "M",
        "name": "process_sort_index",
        "pid": process,
        "tid": 0,
        "args": {"sort_index": place},
    }


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
