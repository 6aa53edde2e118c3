"""A group of 1, 8 and 64 tasks against as many bare threads, started and joined, doing the same.

Run as ``python -m tests.benchmarks.bench_tasks``.
"""

from __future__ import annotations

import itertools
import tempfile
import threading

import jobrun
from jobrun.graph.types import Job
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.benchmarks.ratios import medians, show


def job(tasks: int) -> Job:
    """A job of so many independent tasks, each of which adds 1.0 to a blob of its own."""
    start = jobrun.steps(*(f"x{number} = 0.0" for number in range(tasks)))
    work = tuple(
        jobrun.Task(f"t{number}", "local", jobrun.steps(f"x{number} = x{number} + 1.0"))
        for number in range(tasks)
    )
    wide_job = jobrun.Job(
        "wide",
        jobrun.Cluster((jobrun.Node("local"),)),
        jobrun.TaskGroup("init", (jobrun.Task("start", "local", start),)),
        jobrun.TaskGroup("epoch", work),
        stop=(jobrun.StopAfterEpochs(1),),
    )
    return jobrun.prepare(wide_job).job


def bench(tasks: int, folder: str) -> None:
    """Print the two times."""
    wide_job = job(tasks)
    session = ThreadsSession()
    session.open(wide_job.cluster, RunContext(0, folder, folder))
    session.run(wide_job.init, 0, {})
    numbers = itertools.count(1)
    blobs = {f"x{number}": 0.0 for number in range(tasks)}

    def add(name: str) -> None:
        blobs[name] = blobs[name] + 1.0

    def bare() -> None:
        threads = [threading.Thread(target=add, args=(name,)) for name in blobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def group() -> None:
        session.run(wide_job.epoch, next(numbers), {})

    seconds = medians({f"{tasks} bare threads": bare, f"a group of {tasks} tasks": group}, calls=50)
    session.close()
    show(f"{tasks} tasks", seconds, f"{tasks} bare threads", {f"a group of {tasks} tasks": 1.0})


def main() -> None:
    """Print a table for each number of tasks."""
    with tempfile.TemporaryDirectory() as folder:
        for tasks in (1, 8, 64):
            bench(tasks, folder)


if __name__ == "__main__":
    main()
