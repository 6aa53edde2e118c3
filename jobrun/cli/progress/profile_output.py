"""Profile a run for the option ``--profile``, and print where its time went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jobrun.cli.formatting import list_times, shorten_path
from jobrun.cli.terminal import Shell
from jobrun.core.events import Event, Listener
from jobrun.core.text.terminal_text import align_cells
from jobrun.core.time_use import TimeUse
from jobrun.runner.options import RunOptions

if TYPE_CHECKING:
    from jobrun.tools.profile import Table

Attach = Callable[[RunOptions, Listener], tuple[RunOptions, Listener]]
_MOST_STEPS = 20
_MOST_ROWS = 10


@contextmanager
def profile_run(wanted: bool, shell: Shell) -> Iterator[Attach]:
    """Profile a run for the option ``--profile``; then print and write the profile.

    However it ends: where the time goes is asked most of a run that was stopped. The live display
    lives within the context: the tables are printed when it has left the terminal.

    Yields:
        What adds the profiler to a run's options, and to its listener.
    """
    if not wanted:
        yield lambda options, listener: (options, listener)
        return
    from jobrun.tools.profile import Profiler  # noqa: PLC0415 - only when asked for

    profiler = Profiler()

    def attach(options: RunOptions, listener: Listener) -> tuple[RunOptions, Listener]:
        def listen(event: Event) -> None:
            profiler.listen(event)
            listener(event)

        return replace(options, profiler=profiler), listen

    try:
        yield attach
    finally:
        files = profiler.write()
        profile = profiler.table()
        if files and profile:
            for line in render_tables(profile, files, profiler.times):
                shell.say(line)


def render_tables(
    profile: Table, files: tuple[Path, ...], times: TimeUse | None = None
) -> list[str]:
    """Render a profile for the command line: its slowest rows, and which files hold all rows."""
    whole = sum(row.seconds for row in profile.steps) or 1.0
    steps = [
        (
            _seconds(row.seconds),
            f"{row.seconds / whole:.0%}",
            _calls(row.calls, row.estimated),
            row.label,
            row.path,
        )
        for row in profile.steps[:_MOST_STEPS]
        if row.calls
    ]
    operators = [
        (_seconds(row.seconds), f"{row.seconds / whole:.0%}", str(row.calls), row.label)
        for row in profile.operators[:_MOST_ROWS]
        if row.calls
    ]
    instances = [
        (
            _seconds(row.seconds),
            _seconds(row.setup_s),
            _seconds(row.report_s),
            str(row.runs),
            f"{row.node}/{row.task}" if row.task else f"{row.node}, around {row.group}",
            str(row.instance),
        )
        for row in profile.instances[:_MOST_ROWS]
    ]
    nodes = [(_seconds(row.seconds), row.node) for row in profile.nodes[:_MOST_ROWS]]
    lines = []
    if times is not None:
        lines = [
            "profile: where the wall time went",
            *(f"  {line}" for line in list_times(times)),
            "",
        ]
    lines.append("profile: time of each step, without nested steps")
    lines += _table(3, ("time", "share", "calls", "does", "step"), steps)
    lines += ["", *_table(3, ("time", "share", "calls", "does"), operators)]
    lines += ["", *_table(4, ("body", "set-up", "reports", "runs", "task", "instance"), instances)]
    lines += ["", *_table(1, ("time", "node"), nodes)]
    shown = [shorten_path(str(path)) for path in files]
    lines += ["", "files: all rows; a trace to open in chrome://tracing or ui.perfetto.dev"]
    return lines + [f"  {path}" for path in shown]


def _table(numbers: int, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Format rows of a profile as lines of a table; its first ``numbers`` columns hold numbers."""
    table = align_cells((head, *rows), range(numbers))
    return [("  " + "  ".join(cells)).rstrip() for cells in table]


def _calls(calls: int, estimated: bool) -> str:
    return f"~{calls}" if estimated else str(calls)


def _seconds(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
