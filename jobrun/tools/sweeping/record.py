"""What a sweep was asked for, so that it can be looked at, and gone on with, without asking again.

Nothing is decided by it: how a point stands, its own runs tell.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobrun.core.errors import UsageError
from jobrun.runner.durable import disk_faults, read_plain, write_whole

# Begins with a dot: no job's name, so nobody takes it for a folder of runs.
FOLDER = ".sweeps"
_NAME = "sweep.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a command line that says which points there are.

    Attributes:
        grid: The axes as written.
        random: How many points are drawn; None for all.
        seed: Of the draws.
    """

    grid: tuple[str, ...]
    random: int | None = None
    seed: int = 0


def sweep_folder(run_dir: Path, name: str) -> Path:
    """Where a sweep keeps what it is about, and its lock."""
    return run_dir / FOLDER / name


def write_asked(folder: Path, asked: Asked) -> None:
    """Keep what was asked for, whole.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    with disk_faults(f"write {folder / _NAME}"):
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": _FORMAT, **asdict(asked)}
        write_whole(folder / _NAME, json.dumps(content, indent=2).encode() + b"\n")


def read_asked(folder: Path) -> Asked:
    """What was asked for last.

    Raises:
        UsageError: E438, there is no such sweep yet.
    """
    try:
        content: Any = json.loads(read_plain(folder / _NAME))
        return Asked(tuple(map(str, content["grid"])), content["random"], int(content["seed"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError.of(
            "E438",
            f"there is no sweep '{folder.name}' in {folder.parent.parent} yet",
            "say which values to try, such as --grid lr=0.1,0.01",
        ) from error
