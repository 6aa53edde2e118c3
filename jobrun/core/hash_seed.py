"""Read and fix the hash seed of this process (``PYTHONHASHSEED``), which decides set order.

Python draws a new one at each start unless ``PYTHONHASHSEED`` is set, and it cannot be changed
later. The command line therefore starts the process of a ``run``, ``resume`` or ``fork`` with a
fixed one: that of the environment, else 0, else the one that the run recorded. 0 is a constant and
not the job's seed, since it has to be known before any file is read, and the order of a set is no
draw.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "PYTHONHASHSEED"
DEFAULT = "0"
RANDOM = "random"


def hash_seed() -> str:
    """Return the ``PYTHONHASHSEED`` that this process was started with, or ``random``.

    The environment as it is now does not count: a program may set the variable too late.
    """
    if sys.flags.ignore_environment:
        return RANDOM
    from jobrun.core.system_calls import read_proc  # noqa: PLC0415 - not to start again

    started_with = read_proc("self", "environ").split(b"\0")
    if started_with == [b""]:
        return os.environ.get(VARIABLE) or RANDOM
    prefix = f"{VARIABLE}=".encode()
    values = [entry.removeprefix(prefix) for entry in started_with if entry.startswith(prefix)]
    return values[0].decode(errors="replace") if values and values[0] else RANDOM


def described_hash_seed() -> str:
    """Describe the process's hash seed with a sample hash, such as ``0 (b3a1f9c4)``.

    The samples of two processes whose seeds are random differ, as their sets do.
    """
    return f"{hash_seed()} ({hash('jobrun') & 0xFFFFFFFF:08x})"


def recorded_seed(described: str) -> str:
    """Return the hash seed (``PYTHONHASHSEED``) in a run's record; empty if it was random."""
    seed = described.partition(" ")[0]
    return "" if seed == RANDOM else seed


def initial_hash_seed() -> str:
    """Return the hash seed that a command starts with: ``PYTHONHASHSEED``, or 0 if it is random."""
    seed = os.environ.get(VARIABLE, RANDOM)
    return DEFAULT if seed in {"", RANDOM} else seed


def fix_hash_seed(command_line: list[str]) -> None:
    """Replace this process by one with a fixed hash seed if its own is random.

    Args:
        command_line: The program and its arguments; the program that runs now.
    """
    seed = initial_hash_seed()
    if os.environ.get(VARIABLE) != seed and not sys.flags.ignore_environment:
        os.environ[VARIABLE] = seed
        os.execv(command_line[0], command_line)  # noqa: S606 - ourselves
