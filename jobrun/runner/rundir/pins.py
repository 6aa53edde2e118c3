"""Read and write a run's pins: epochs that a user keeps from deletion.

It is no part of a checkpoint, so that nothing that happens to one can lose it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.files.json_files import build, read_json
from jobrun.core.lazy_dataclass import dataclass

PINS_NAME = "pins.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Pins:
    format: int
    pinned: tuple[int, ...]


def read_pins(run: Path) -> frozenset[int]:
    """Read the pins of a run: the epochs that a user keeps.

    Raises:
        EnvironmentFaultError: E385, the file cannot be read: nothing may be deleted then.
    """
    path = f"{run}/{PINS_NAME}"
    try:
        # After each epoch, and most runs have none.
        os.lstat(path)
        form = build(_Pins, read_json(path))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise _unreadable(run, error.strerror or str(error)) from error
    except ValueError as error:
        raise _unreadable(run, str(error)) from error
    if form.format != _FORMAT or min(form.pinned, default=0) < 0:
        raise _unreadable(run, "it does not list epochs")
    return frozenset(form.pinned)


def write_pins(run: Path, pinned: Collection[int]) -> None:
    """Replace a run's pins (epochs that a user keeps) by others, durably.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    form = {"format": _FORMAT, "pinned": sorted(pinned)}
    with disk_faults("E354", f"write {PINS_NAME}"):
        write_file(run / PINS_NAME, json.dumps(form).encode() + b"\n")


def _unreadable(run: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E385",
        f"{run / PINS_NAME} cannot be read, so it is not known which epochs are pinned: {why}",
        "repair it, or delete it if nothing is pinned",
    )
