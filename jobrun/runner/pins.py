"""Which epochs a user wants kept whatever the policy says. One small file in the run's directory.

It is no part of a checkpoint, so that nothing that happens to one can lose it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.durable import disk_faults, read_plain, write_whole

PINS_NAME = "pins.json"
_FORMAT = 1


def read_pins(run: Path) -> frozenset[int]:
    """The pinned epochs of a run.

    Raises:
        EnvironmentFaultError: E385, the file cannot be read: nothing may be deleted then.
    """
    try:
        form = json.loads(read_plain(run / PINS_NAME))
        pinned = form["pinned"] if form["format"] == _FORMAT else None
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(run, str(error)) from error
    if not isinstance(pinned, list) or not all(type(one) is int and one >= 0 for one in pinned):
        raise _unreadable(run, "it does not list epochs")
    return frozenset(pinned)


def write_pins(run: Path, pinned: Collection[int]) -> None:
    """Put these epochs down as the pinned ones, durably.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    form = {"format": _FORMAT, "pinned": sorted(pinned)}
    with disk_faults(f"write {PINS_NAME}"):
        write_whole(run / PINS_NAME, json.dumps(form).encode() + b"\n")


def _unreadable(run: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E385",
        f"{run / PINS_NAME} cannot be read, so it is not known which epochs are pinned: {why}",
        "mend it, or delete it if nothing is pinned",
    )
