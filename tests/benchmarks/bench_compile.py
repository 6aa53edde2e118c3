"""How compiling grows with the job: time per task at 1,000, 10,000 and 60,000.

Run as ``python -m tests.benchmarks.bench_compile``.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
import time
from collections import Counter
from pathlib import Path

from jobrun.compile.job import compile_job
from jobrun.spec.load import load_spec

HEAD = "jobrun: 1\nname: many\ninit:\n  - task: start\n    steps: [{assignments}]\nepoch:\n"
# Short: a spec has at most 16 MiB.
TASK = """\
- task: w{number}
  needs: [{needs}]
  steps:
  - t = x{number} * 2 + 1
  - x{number} = t - x{number}
  - {{op: maximum, in: [t, 0], out: low}}
"""
TAIL = "stop:\n  - epochs: 2\n"
ROUNDS = 5
# A spec has at most 1,000,000 values, which is some 65,000 of these tasks.
TASKS = (1_000, 10_000, 60_000)


def spec(tasks: int) -> str:
    """A job of so many tasks, each of which waits for the one a thousand before it."""
    names = ", ".join(f"x{number} = 0.0" for number in range(tasks))
    body = "".join(
        TASK.format(number=number, needs=f"w{number - 1000}" if number >= 1000 else "")
        for number in range(tasks)
    )
    return HEAD.format(assignments=names) + body + TAIL


def seconds(tasks: int, folder: Path) -> tuple[float, float]:
    """Loading and compiling: the least of a few rounds each."""
    path = folder / f"{tasks}.yaml"
    path.write_text(spec(tasks))
    loading, compiling = [], []
    for _ in range(ROUNDS if tasks < 60_000 else 1):
        begun = time.perf_counter()
        loaded = load_spec(str(path))
        loading.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        compile_job(loaded)
        compiling.append(time.perf_counter() - begun)
    return min(loading), min(compiling)


def profile(tasks: int, folder: Path) -> None:
    """Print which modules of the compiler the time goes to."""
    loaded = load_spec(str(folder / f"{tasks}.yaml"))
    profiler = cProfile.Profile()
    profiler.runcall(compile_job, loaded)
    own: Counter[str] = Counter()
    for (file, _, name), (_, _, seconds_of, *_) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        own[Path(file).name if file != "~" else name] += seconds_of
    whole = sum(own.values())
    print(f"\nwhere compiling {tasks} tasks goes (own time, under a profiler)")
    for name, took in own.most_common(12):
        print(f"  {name:44} {took / whole:6.1%}")


def main() -> None:
    """Print the table, how the time per task grows, and where it goes."""
    with tempfile.TemporaryDirectory() as folder:
        per_task = {}
        for tasks in TASKS:
            loading, compiling = seconds(tasks, Path(folder))
            per_task[tasks] = (loading + compiling) / tasks
            print(
                f"{tasks:7} tasks  load {loading:6.2f} s  compile {compiling:6.2f} s"
                f"  {per_task[tasks] * 1e6:6.0f} us a task"
                f"  {per_task[tasks] / per_task[TASKS[0]]:5.2f} x   (aim: within 1.3 x)",
                flush=True,
            )
        profile(TASKS[1], Path(folder))


if __name__ == "__main__":
    main()
