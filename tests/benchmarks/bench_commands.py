"""Whole commands as a user types them: on specs of thousands of tasks, short epochs, csv tables.

Run as ``python -m tests.benchmarks.bench_commands``. Times are of the processor where a command
computes alone, since other load hardly changes those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tests.benchmarks.ratios import show, verdict
from tests.support.command import environment

TASKS = 10_000
_HEAD = "jobrun: 1\nname: large\ninit:\n- task: start\n  steps:\n"
_TAIL = "stop: [{epochs: 2}]\n"
# By command; seconds beyond those of the same command on a spec of one task.
_MOST_S = {"validate": 1.1, "plan": 1.6, "graph": 1.6, "fmt --check": 2.2}
_MOST_GROWTH = 2.3
_SHORT_EPOCHS = """\
jobrun: 1
name: short
init: [{{task: start, steps: ["x = rng.standard_normal((200, 100))", s = 0.0]}}]
epoch: [{{task: step, steps: ["x *= 0.999", "y = sqrt(x * x + 1.0)", "s = sum(y)"]}}]
metrics: {{s: s}}
stop: [{{epochs: {epochs}}}]
checkpoint: {{every: {every}}}
"""
_ROWS = 1_000_000
_ARROW = "from pyarrow import csv; t = csv.read_csv('t.csv'); [c.to_numpy() for c in t.columns]"
_LOAD = "from jobrun.formats.csv import read_table; read_table('t.csv', '')"
_BATCHES = """\
from jobrun.formats.csv import open_file
rows = open_file('t.csv', ('a', 'b', 'c'))
for start in range(0, len(rows), 1024):
    rows.take(start, min(start + 1024, len(rows)))
"""


def large_spec(tasks: int) -> str:
    """Return a spec of tasks that read and write two blobs each; each needs one far before it."""
    lines = [f"  - a{number} = 1.0\n  - b{number} = 2.0\n" for number in range(tasks)]
    lines.append("epoch:\n")
    for number in range(tasks):
        needs = f", needs: [t{number - 1000}]" if number >= 1000 else ""
        steps = f"[a{number} = a{number} + b{number}, b{number} = b{number} * 0.5]"
        lines.append(f"- {{task: t{number}{needs}, steps: {steps}}}\n")
    return _HEAD + "".join(lines) + _TAIL


def processor_s(words: list[str], folder: Path) -> float:
    """Run a command of Python and return the seconds of processor time that it took."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment(JOBRUN_RUN_DIR=str(folder / "runs")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return usage.ru_utime + usage.ru_stime


def least(act: Callable[[], float], rounds: int = 2) -> float:
    """Return the least of a few measurements."""
    return min(act() for _ in range(rounds))


def bench_large_specs(folder: Path) -> None:
    """Print the seconds of each command on large specs, and how they grow."""
    sizes = (1, TASKS, 2 * TASKS)
    for tasks in sizes:
        (folder / f"{tasks}.yaml").write_text(large_spec(tasks))
    print(f"\nseconds of a command on {TASKS:,} tasks, beyond those on one task")
    for command, most_s in _MOST_S.items():
        words = ["-m", "jobrun", *command.split()]
        single, many, twice = (
            least(partial(processor_s, [*words, f"{tasks}.yaml"], folder)) for tasks in sizes
        )
        growth = (twice - single) / (many - single)
        print(
            f"  {command:44} {many - single:8.2f}{verdict(many - single, most_s)}"
            f"   twice as many {growth:.2f} x{verdict(growth, _MOST_GROWTH)}"
        )


def bench_short_epochs(folder: Path) -> None:
    """Print what ``every: auto`` adds to runs of short epochs, in time as a person waits."""
    policies = {"a save a minute": "1m", "every: auto": "auto"}
    for epochs in (500, 2_000):
        times: dict[str, float] = {}
        for name, every in policies.items():
            path = folder / f"short-{every}.yaml"
            path.write_text(_SHORT_EPOCHS.format(epochs=epochs, every=every))
            words = ["-m", "jobrun", "run", str(path), "--quiet", "--resume", "never"]
            times[name] = least(partial(processor_s, words, folder), 3)
        show(f"run of {epochs:,} epochs of 0.2 ms", times, "a save a minute", {"every: auto": 1.2})


def bench_csv(folder: Path) -> None:
    """Print how long a csv table takes to load, and to read in batches, against pyarrow."""
    rng = np.random.default_rng(0)
    table = np.stack([rng.normal(size=_ROWS), rng.integers(0, 1000, _ROWS)], axis=1)
    with (folder / "t.csv").open("w") as file:
        file.write("a,b,c\n")
        file.writelines(f"{a:.6f},{int(b)},{a!r}\n" for a, b in table.tolist())
    programs = {"pyarrow": _ARROW, "load": _LOAD, "batches of 1,024": _BATCHES}
    times = {
        name: least(partial(processor_s, ["-c", program], folder), 3)
        for name, program in programs.items()
    }
    show(f"a csv table of {_ROWS:,} rows", times, "pyarrow", {"load": 1.2, "batches of 1,024": 1.2})


def main() -> None:
    """Print all ratios."""
    with tempfile.TemporaryDirectory() as name:
        bench_large_specs(Path(name))
        bench_short_epochs(Path(name))
        bench_csv(Path(name))


if __name__ == "__main__":
    main()
