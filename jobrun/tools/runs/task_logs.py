"""List and read the logs of a run's tasks."""

from __future__ import annotations

from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.core.files.json_files import read_lines
from jobrun.core.text.names import did_you_mean
from jobrun.runner.rundir.logs import unreadable_file_error


def list_logs(run: Path, task: str = "") -> list[Path]:
    """List log files of a task in a run, one per parallel copy; of all tasks if none is named."""
    try:
        paths = sorted((run / "logs").glob("*.log"))
    except OSError:
        return []
    return [path for path in paths if task in ("", path.stem, path.stem.rpartition(".")[0])]


def require_logs(run: Path, task: str, name: str) -> list[Path]:
    """List the log files of a run's task, or raise an error if the named task has none.

    Args:
        run: The run's directory.
        task: The task; empty for all.
        name: Of the run, for the message.

    Raises:
        UsageError: E428, the named task has none.
    """
    files = list_logs(run, task)
    if task and not files:
        known = [path.stem for path in list_logs(run)]
        raise UsageError.of(
            "E428", f"no log output of task '{task}' in {name}", did_you_mean(task, known)
        )
    return files


def read_log(path: Path) -> list[str]:
    """Read the lines of one log file of a task; bytes that are no UTF-8 become escapes.

    Raises:
        CheckpointError: E470, it is no regular file, or cannot be read.
    """
    try:
        lines = [line.rstrip(b"\n").decode(errors="backslashreplace") for line in read_lines(path)]
    except OSError as error:
        raise unreadable_file_error(path, error) from error
    return lines
