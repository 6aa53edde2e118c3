"""How long commands take to start, as ratios to a bare interpreter.

Run as ``python -m tests.benchmarks.bench_startup``.
"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support.command import SPECS, environment

ROUNDS = 9
CASES = {
    "python -c pass": ["-c", "pass"],
    "jobrun --version": ["-m", "jobrun", "--version"],
    "jobrun --help": ["-m", "jobrun", "--help"],
    "jobrun explain": ["-m", "jobrun", "explain"],
    "jobrun validate": ["-m", "jobrun", "validate", str(SPECS / "digits-kmeans.yaml")],
    "import numpy": ["-c", "import numpy"],
    "import numpy, h5py": ["-c", "import numpy, h5py"],
}


def seconds(arguments: list[str]) -> float:
    """The least of several rounds, in processes of their own."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], env=environment(), stdout=subprocess.DEVNULL, check=True
        )
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    """Print the table."""
    bare = seconds(CASES["python -c pass"])
    for name, arguments in CASES.items():
        took = seconds(arguments)
        print(f"{name:22} {took * 1000:7.0f} ms  {took / bare:5.1f} x")


if __name__ == "__main__":
    main()
