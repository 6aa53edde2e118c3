"""Read and fix the hash seed of this process (``PYTHONHASHSEED``), which decides set order.

Python draws a new one at each start unless ``PYTHONHASHSEED`` is set, and it cannot be changed
later. The command line therefore starts ``run``, ``resume`` and ``fork`` with a fixed one: that of
the environment, else 0, else the one that the run recorded. It is a constant and not the job's
seed, since it has to be known before any file is read, and the order of a set is no draw.
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
    values = [one.removeprefix(prefix) for one in started_with if one.startswith(prefix)]
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


def fix_hash_seed() -> None:
    """Start this process again with the hash seed 0 if it has a random one."""
    if os.environ.get(VARIABLE, RANDOM) in {"", RANDOM} and can_start_again():
        start_again(DEFAULT)


def can_start_again() -> bool:
    """Return whether this process can be replaced by its own command line, to change the hash seed.

    Else the program that called ``main`` would be started again, or this one without end.
    """
    own = os.path.basename(sys.argv[0]) in {"jobrun", "__main__.py"}  # noqa: PTH119 - cheap
    given = sys.argv[1:]
    return own and sys.orig_argv[-len(given) :] == given and not sys.flags.ignore_environment


def start_again(seed: str) -> None:
    """Replace this process by one with the same command line and the given hash seed."""
    os.environ[VARIABLE] = seed
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
