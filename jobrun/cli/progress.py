"""Which kind of progress a command shows, and what is said when a run has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobrun.cli.faults import show
from jobrun.cli.output import document, number, short_path, size, span
from jobrun.cli.plain import PlainProgress
from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally
from jobrun.core.errors import JobrunError
from jobrun.runner.settings import RunResult

_ENDINGS = {
    0: ("finished", "green"),
    9: ("finished, but not as expected", "red"),
    75: ("stopped early", "yellow"),
    130: ("interrupted", "yellow"),
}
_MOST_ARTIFACTS = 6


def progress_of(shell: Shell, tally: Tally, verbosity: int) -> Any:
    """A context manager that is a listener: live on a terminal, else plain lines."""
    if shell.log_format == "json":
        from jobrun.cli.lines import JsonLines  # noqa: PLC0415 - rarely used

        return JsonLines(shell, tally, quiet=verbosity < 0)
    if shell.live and verbosity == 0:
        # rich takes longer to load than most of the rest; only a terminal needs it.
        from jobrun.cli.live import LiveProgress  # noqa: PLC0415

        return LiveProgress(shell, tally)
    return PlainProgress(shell, tally, verbosity)


@contextmanager
def what_is_kept(tally: Tally) -> Iterator[None]:
    """Let an error say which epoch is saved, and how to go on from it, once there is one."""
    try:
        yield
    except JobrunError as error:
        run = tally.started
        saved = tally.saved.epoch if tally.saved else run.epoch if run else -1
        if run is not None and saved >= 0:
            again = f"jobrun resume {short_path(run.directory)}"
            error.add_note(f"epoch {saved} is saved; to go on from it: {again}")
        raise


def tell_end(result: RunResult, tally: Tally, shell: Shell, verbosity: int) -> None:
    """Say how the run ended, with what, where it is, and what to do next."""
    word, colour = _ENDINGS[result.exit_code]
    # Programs have heard it as an event.
    verbosity = -1 if shell.log_format == "json" else verbosity
    if verbosity >= 0:
        for line in summary(result, tally):
            shell.say(line.replace(word, shell.paint(word, "bold", colour), 1))
    if result.exit_code == 9:
        show(result.faults, shell)
    if verbosity >= 0:
        for label, words in zip(("next:", "     "), _next_commands(result), strict=False):
            shell.say(f"{label} {words}")


def summary(result: RunResult, tally: Tally) -> list[str]:
    """The last words, without colours, one line each."""
    word, _ = _ENDINGS[result.exit_code]
    lines = [_ending(word, result)]
    rows = [(name, number(value)) for name, value in tally.latest().items()]
    if tally.started is None:
        rows.append(("time", "nothing was left to do"))
    else:
        rows.append(("time", f"{span(tally.elapsed)}, {_epochs(tally.epochs_seen)}"))
    if tally.saved is not None:
        rows.append(("saved", f"epoch {tally.saved.epoch}, {size(tally.saved.size_bytes)}"))
    if tally.failed_saves:
        rows.append(("not saved", f"{tally.failed_saves} checkpoints"))
    rows.append(("run", short_path(result.run_path)))
    found = _artifacts(Path(result.run_path))
    rows += [("" if index else "result", path) for index, path in enumerate(found)]
    width = max(len(name) for name, _ in rows)
    return lines + [f"  {name:<{width}}  {text}" for name, text in rows]


def _epochs(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count} epochs"


def _ending(word: str, result: RunResult) -> str:
    if result.reason.startswith("stopped "):
        # The runner says already after which epoch, and which one is saved.
        return word + result.reason.removeprefix("stopped")
    when = f" after epoch {result.epoch}" if result.epoch >= 0 else ""
    return f"{word}{when}: {result.reason}" if result.reason else f"{word}{when}"


def as_document(result: RunResult, tally: Tally) -> str:
    """How the run ended, for programs."""
    return document(
        "run",
        {
            "run": result.run_path,
            "exit_code": result.exit_code,
            "epoch": result.epoch,
            "reason": result.reason,
            "metrics": tally.latest(),
            "faults": [fault.message for fault in result.faults],
        },
    )


def _next_commands(result: RunResult) -> tuple[str, ...]:
    """The one that matters most first; at most two."""
    run = short_path(result.run_path)
    if result.exit_code in (75, 130):
        return (f"jobrun resume {run}",)
    return f"jobrun inspect-checkpoint {run}", f"jobrun report {run}"


def _artifacts(run: Path) -> Sequence[str]:
    try:
        found = sorted(path for path in (run / "artifacts").rglob("*") if path.is_file())
    except OSError:
        return []
    shown = [short_path(str(path)) for path in found[:_MOST_ARTIFACTS]]
    return [*shown, f"and {len(found) - len(shown)} more"] if len(found) > len(shown) else shown
