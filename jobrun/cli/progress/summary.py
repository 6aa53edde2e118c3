"""Print the summary of an ended run: its end, results, and the next commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import (
    list_times,
    number,
    render_json_document,
    render_rows,
    shorten_path,
    size,
    span,
    wrap_line,
)
from jobrun.cli.progress.run_state import RunState
from jobrun.cli.terminal import Shell
from jobrun.core.errors import JobrunError, UsageError
from jobrun.runner.options import RunResult
from jobrun.runner.rundir.run_json import RECORD_NAME

_ENDINGS = {
    0: ("finished", "green"),
    9: ("finished, but an expectation does not hold", "red"),
    75: ("stopped early", "yellow"),
    130: ("interrupted", "yellow"),
}
_MOST_ARTIFACTS = 6
# Columns that labels take, and what is around them.
_BESIDE_PATHS = 13


def print_summary(result: RunResult, state: RunState, shell: Shell, verbosity: int) -> None:
    """Print the summary of a run: how it ended, its results, where it is, and next commands."""
    word, colour = _ENDINGS[result.exit_code]
    # Programs have heard it as an event.
    verbosity = -1 if shell.log_format == "json" else verbosity
    if verbosity >= 0:
        for line in render_summary(result, state, shell.message_width):
            shell.say(line.replace(word, shell.paint(word, "bold", colour), 1))
    if result.exit_code == 9:
        print_faults(result.faults, shell)
    if verbosity >= 0:
        for label, words in zip(("next:", "     "), _next_commands(result, state), strict=False):
            shell.say(f"{label} {words}")


def render_summary(result: RunResult, state: RunState, width: int = sys.maxsize) -> list[str]:
    """Render the printed summary of an ended run, without colours, as lines.

    Args:
        result: Of the run.
        state: What its events said.
        width: Of the terminal, in columns.
    """
    word, _ = _ENDINGS[result.exit_code]
    lines = wrap_line(_ending(word, result), width, 2)
    rows = [(name, number(value)) for name, value in state.latest().items()]
    if state.started is None:
        rows.append(("time", "nothing left to do"))
    else:
        rows += _time_rows(state)
    if state.saved is not None:
        rows.append(("saved", f"epoch {state.saved.epoch}, {size(state.saved.size_bytes)}"))
    if state.failed_saves:
        rows.append(("not saved", f"{state.failed_saves} checkpoints"))
    rows.append(("run", shorten_path(result.run_path)))
    artifacts = _artifacts(Path(result.run_path))
    if any(len(path) > width - _BESIDE_PATHS for path in artifacts):
        # A terminal would break them anywhere; the row above has their common start.
        artifacts = [path.replace(rows[-1][1], "…", 1) for path in artifacts]
    rows += [("" if index else "result", path) for index, path in enumerate(artifacts)]
    return lines + render_rows(rows, width)


def _time_rows(state: RunState) -> list[tuple[str, str]]:
    """Render the rows about time in a run's summary: how long it took, and where time went."""
    used = state.usage
    if used is None:
        return [("time", f"{span(state.elapsed)}, {_epochs(state.epochs_seen)}")]
    rows = [("time", f"{span(used.times.total_s)}, {_epochs(state.epochs_seen)}")]
    rows += [("", line) for line in list_times(used.times)]
    if used.starts > 1:
        whole_s = used.before.add(used.times).total_s
        rows.append(("", f"{span(whole_s)} in {used.starts} starts"))
    if used.advice:
        rows.append(("hint", used.advice))
    peak = sum(process.peak_bytes for process in used.processes)
    if peak:
        rows.append(("memory", f"at most {size(peak)}"))
    return rows


def render_result(result: RunResult, state: RunState) -> str:
    """Render the summary of an ended run as a JSON document."""
    from jobrun.tools.runs.recorded_usage import sum_usage, usage_values  # noqa: PLC0415 - seldom

    return render_json_document(
        "run",
        {
            "run": result.run_path,
            "exit_code": result.exit_code,
            "epoch": result.epoch,
            "reason": result.reason,
            "metrics": state.latest(),
            **usage_values(sum_usage(state.usage)),
            "faults": [fault.message for fault in result.faults],
        },
    )


@contextmanager
def note_saved_epoch(state: RunState) -> Iterator[None]:
    """Add to an exception that ends a run the summary's line on the last saved epoch."""
    try:
        yield
    except UsageError:
        # A run that is refused at its start is removed, with the state that it had adopted.
        raise
    except JobrunError as error:
        run = state.started
        saved = state.saved.epoch if state.saved else run.epoch if run else -1
        if run is not None and saved >= 0:
            error.add_note(render_saved_epoch(saved, run.directory))
        raise


def render_saved_epoch(epoch: int, directory: str) -> str:
    """Render for the summary which epoch is saved and the command to continue from it."""
    if not Path(directory, RECORD_NAME).is_file():
        return f"epoch {epoch} was saved in {directory}, which no longer exists"
    again = f"jobrun resume {shorten_path(directory)}"
    return f"epoch {epoch} is saved; to continue: {again}"


def _epochs(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count} epochs"


def _ending(word: str, result: RunResult) -> str:
    if result.reason.startswith("stopped "):
        # The runner says already after which epoch, and which one is saved.
        return word + result.reason.removeprefix("stopped")
    when = f" after epoch {result.epoch}" if result.epoch >= 0 else ""
    return f"{word}{when}: {result.reason}" if result.reason else f"{word}{when}"


def _next_commands(result: RunResult, state: RunState) -> tuple[str, ...]:
    """Choose at most two next commands for the summary, the most useful first."""
    run = shorten_path(result.run_path)
    is_saved = state.started is None or state.saved is not None or state.first_epoch >= 0
    if result.exit_code in (75, 130):
        return (f"jobrun resume {run}",) if is_saved else ()
    if not is_saved:
        return (f"jobrun report {run}",)
    return f"jobrun inspect-checkpoint {run}", f"jobrun report {run}"


def _artifacts(run: Path) -> Sequence[str]:
    try:
        files = sorted(path for path in (run / "artifacts").rglob("*") if path.is_file())
    except OSError:
        return []
    shown = [shorten_path(str(path)) for path in files[:_MOST_ARTIFACTS]]
    return [*shown, f"and {len(files) - len(shown)} more"] if len(files) > len(shown) else shown
