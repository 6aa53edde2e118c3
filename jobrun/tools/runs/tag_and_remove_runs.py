"""Tag the runs below a directory, measure them, and remove them."""

from __future__ import annotations

from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.json_files import read_json, write_json
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import Run, remove_directory

TAGS_NAME = "tags.json"
_TAG = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")


def read_tags(run: Path) -> tuple[str, ...]:
    """Read a run's tags, sorted; none if the file is unreadable."""
    try:
        content = read_json(run / TAGS_NAME)
    except (OSError, ValueError):
        return ()
    tags = content if isinstance(content, list) else []
    return tuple(sorted({tag for tag in tags if isinstance(tag, str) and _TAG.fullmatch(tag)}))


def change_tags(run: Path, add: tuple[str, ...], remove: tuple[str, ...]) -> tuple[str, ...]:
    """Add tags to a run, remove other tags, and return all tags that the run then has.

    Raises:
        UsageError: E422, a tag is not one word.
        EnvironmentFaultError: Writing or deleting fails.
    """
    for tag in add:
        if not _TAG.fullmatch(tag):
            raise UsageError.of(
                "E422",
                f"'{tag}' cannot be a tag",
                "write one word of letters, digits and _ . = -, such as baseline or lr=0.1",
            )
    tags = sorted({*read_tags(run), *add} - set(remove))
    with disk_faults("E354", f"write {TAGS_NAME}"):
        write_json(run / TAGS_NAME, tags)
    return tuple(tags)


def measure_size(run: Path) -> int:
    """Measure the bytes of all files in a run's directory, which its removal frees."""
    return sum(path.lstat().st_size for path in run.rglob("*") if not path.is_dir())


def remove_run(run: Run, *, unfinished: bool = False) -> None:
    """Remove a run with its directory, unless the run is live.

    Args:
        run: The run.
        unfinished: One that ``resume`` could go on with is meant, too.

    Raises:
        LockedError: It lives.
        UsageError: E423, it could be continued, and ``unfinished`` does not say so.
        EnvironmentFaultError: Writing or deleting fails.
    """
    if run.unfinished and run.has_saved and not unfinished:
        raise UsageError.of(
            "E423",
            f"{run.name} is not finished, and 'jobrun resume' could continue it",
            "to remove it anyway, add --unfinished",
        )
    # Locked until it is gone, so that half a run cannot be resumed.
    with RunLock.acquire(run.path):
        remove_directory(run.path)
