"""``--profile``: measures a run, and shows at its end where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jobrun.cli.output import short_path
from jobrun.cli.shell import Shell
from jobrun.core.events import Event, Listener
from jobrun.runner.settings import RunOptions

if TYPE_CHECKING:
    from jobrun.tools.profiling.table import Table

_MOST_STEPS = 20
_MOST_ROWS = 10


@contextmanager
def profiled(
    wanted: bool, options: RunOptions, listener: Listener, shell: Shell
) -> Iterator[tuple[RunOptions, Listener]]:
    """Inside, the run of these options is measured; afterwards it is shown, and written.

    However it ends: where the time goes is asked most of a run that was stopped.
    """
    if not wanted:
        yield options, listener
        return
    from jobrun.tools.profiling.profiler import Profiler  # noqa: PLC0415 - only when asked for

    profiler = Profiler()

    def listen(event: Event) -> None:
        profiler.listen(event)
        listener(event)

    try:
        yield replace(options, profiler=profiler), listen
    finally:
        files = profiler.write()
        found = profiler.table()
        if files and found:
            for line in lines_of(found, files):
                shell.say(line)


def lines_of(found: Table, files: tuple[Path, ...]) -> list[str]:
    """The tables, cut to what takes longest, and where the whole is."""
    whole = sum(row.seconds for row in found.steps) or 1.0
    steps = [
        (_seconds(row.seconds), f"{row.seconds / whole:.0%}", _calls(row.calls, row.estimated),
         row.label, row.path)
        for row in found.steps[:_MOST_STEPS]
        if row.calls
    ]  # fmt: skip
    operators = [
        (_seconds(row.seconds), f"{row.seconds / whole:.0%}", str(row.calls), row.label)
        for row in found.operators[:_MOST_ROWS]
        if row.calls
    ]
    instances = [
        (_seconds(row.seconds), _seconds(row.setup_s), _seconds(row.report_s), str(row.runs),
         f"{row.node}/{row.task}" if row.task else f"{row.node}, around {row.group}",
         str(row.instance))
        for row in found.instances[:_MOST_ROWS]
    ]  # fmt: skip
    nodes = [(_seconds(row.seconds), row.node) for row in found.nodes[:_MOST_ROWS]]
    lines = ["profile: time of each step by itself"]
    lines += _table(3, ("time", "share", "calls", "does", "step"), steps)
    lines += ["", *_table(3, ("time", "share", "calls", "does"), operators)]
    lines += ["", *_table(4, ("body", "set-up", "reports", "runs", "task", "instance"), instances)]
    lines += ["", *_table(1, ("time", "node"), nodes)]
    shown = [short_path(str(path)) for path in files]
    told = ("all rows", "the trace: open it in chrome://tracing or ui.perfetto.dev")
    width = max(map(len, shown))
    return lines + [f"  {path:<{width}}  {what}" for path, what in zip(shown, told, strict=True)]


def _table(numbers: int, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows under their heads; the first so many cells are numbers, which end below each other."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            text.rjust(width) if at < numbers else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _calls(calls: int, estimated: bool) -> str:
    return f"~{calls}" if estimated else str(calls)


def _seconds(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
