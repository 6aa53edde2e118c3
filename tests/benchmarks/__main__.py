"""All benchmarks, one after the other, and in the end the rows that miss their aims.

Run as ``python -m tests.benchmarks [part of a name …]``. Each has a time of its own; all of them
end within a quarter of an hour.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

# Seconds that each may take; together at most 900. A quiet machine of two cores needs half of that.
LIMITS_S = {
    "startup": 90, "compile": 160, "epoch": 90, "tasks": 20, "queues": 50, "readers": 30,
    "sessions": 60, "numeric": 15, "profile": 45, "nets": 90, "optimizer": 40, "checkpoint": 100,
    "added": 60, "durability": 50,
}  # fmt: skip


def bench(name: str) -> list[str]:
    """Run one benchmark, print what it prints, and return the rows that miss their aims."""
    begun = time.monotonic()
    command = [sys.executable, "-u", "-m", f"tests.benchmarks.bench_{name}"]
    print(f"\n{'=' * 20} {name}", flush=True)
    missed, title = [], ""
    with subprocess.Popen(
        ["timeout", "--kill-after=5", str(LIMITS_S[name]), *command],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.strip() and not line.startswith(" "):
                title = line.strip()
            if "MISSES" in line:
                missed.append(f"{name}: {title}: {line.strip()}")
    if process.returncode:
        ended = (
            f"did not end within {LIMITS_S[name]} s"
            if process.returncode in {124, 137}
            else "failed"
        )
        missed.append(f"{name}: {ended}")
    print(f"({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return missed


def main(parts: list[str]) -> int:
    """Run those whose names contain one of the parts, or all; return 1 if one failed."""
    missed: list[str] = []
    with suppress(KeyboardInterrupt):
        for name in LIMITS_S:
            if not parts or any(part in name for part in parts):
                missed += bench(name)
    print(f"\n{'=' * 20} {len(missed)} rows miss their aims")
    print(*missed, sep="\n")
    return int(any(one.endswith(": failed") for one in missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
