"""All benchmarks, one after the other, and in the end the rows that miss their aims.

Run as ``python -m tests.benchmarks [part of a name …]``. Each has a time of its own; all of them
end within a quarter of an hour.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Timer

# Seconds that each may take; together at most 900. A quiet machine of two cores needs half of that.
LIMITS_S = {
    "startup": 70, "commands": 70, "compile": 90, "epoch": 110, "tasks": 20, "queues": 50,
    "readers": 30, "sessions": 60, "numeric": 15, "profile": 45, "nets": 90, "optimizer": 40,
    "checkpoint": 100, "added": 60, "durability": 50,
}  # fmt: skip


def run_limited(
    command: Sequence[str], limit_s: float, on_line: Callable[[str], object] = print
) -> str:
    """Run a command, pass on its lines, and say how it ended; empty for well.

    Args:
        command: The words.
        limit_s: Seconds after which it is killed, with all that it has started. SIGTERM would be
            a request to the job that it runs, which saves, and lets it continue.
        on_line: Gets each line of its output.
    """
    late = Event()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:

        def _kill() -> None:
            late.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = Timer(limit_s, _kill)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            on_line(line.rstrip("\n"))
        code = process.wait()
        timer.cancel()
    if late.is_set():
        return f"did not end within {limit_s:g} s"
    return f"failed with exit code {code}" if code else ""


def bench(name: str) -> tuple[list[str], bool]:
    """Run one benchmark, and return the rows that miss their aims, and whether it failed."""
    begun = time.monotonic()
    print(f"\n{'=' * 20} {name}", flush=True)
    missed, title = [], ""

    def note(line: str) -> None:
        nonlocal title
        print(line, flush=True)
        if line.strip() and not line.startswith(" "):
            title = line.strip()
        if "MISSES" in line:
            row = line.strip()
            missed.append(f"{name}: {row}" if title == row else f"{name}: {title}: {row}")

    command = [sys.executable, "-u", "-m", f"tests.benchmarks.bench_{name}"]
    ended = run_limited(command, LIMITS_S[name], note)
    if ended:
        missed.append(f"{name}: {ended}")
    print(f"({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return missed, ended.startswith("failed")


def main(parts: list[str]) -> int:
    """Run those whose names contain one of the parts, or all; return 1 if one failed."""
    missed: list[str] = []
    failed = False
    with suppress(KeyboardInterrupt):
        for name in LIMITS_S:
            if not parts or any(part in name for part in parts):
                rows, fell = bench(name)
                missed += rows
                failed |= fell
    print(f"\n{'=' * 20} {len(missed)} rows miss their aims")
    print(*missed, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
