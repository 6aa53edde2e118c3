"""What the master itself does for many nodes: 1,000 and 10,000 that exist in name only.

Run as ``python -m tests.benchmarks.bench_scale``; with ``quick`` for few nodes. The nodes answer
at once and do nothing, behind the interface of a session; all else is real: the spec is compiled,
groups are divided, outputs and events are taken in and logged, metrics are read, and every epoch
is staged, gets a manifest, and is committed. What nodes would do (their files) is taken off.
Aims: linear, and under 1 ms a node for an epoch.

What would break first, with more nodes than these sizes:

* Starting: a node costs the master 3 to 8 ms once (compiled, checked, told its share).
* A pull or an output of all nodes on all nodes: each share names each node, 110 kB a share with
  10,000 nodes, so 1 GB once; and the values themselves are as many. Let one node gather.
* Metrics and conditions over all nodes: each blob is asked for by itself, one node after the
  other, so an epoch takes as many round trips (0.2 ms each to a process) as there are nodes.
* The session of processes has two threads and two sockets for each node, and every event and
  output goes through the one interpreter of the master: some hundred nodes, not thousands.
* An epoch is a directory with a file for each node, all of them looked at when it is committed;
  a shared file system takes longer for that than the master for all else.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jobrun.compile.pipeline import compile_job
from jobrun.core.events import EpochEnded
from jobrun.runner.options import RunOptions
from jobrun.runner.start_or_resume import start_run
from jobrun.spec.load import load_spec
from tests.support.fake_nodes import MADE, FakeSession, fake_nodes, many

EPOCHS = 4
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def measure(nodes: int, folder: Path) -> None:
    """Print one row: everything a node, in milliseconds or kilobytes."""
    before = resident_bytes()
    begun = time.perf_counter()
    loaded = load_spec(str(many(folder, nodes, EPOCHS)))
    job = compile_job(loaded).job
    compiled = time.perf_counter()
    # When each epoch ended, what the nodes' own work had taken by then, and the memory.
    marks: list[tuple[float, float, int]] = []

    def listen(event: Any) -> None:
        if isinstance(event, EpochEnded):
            marks.append((time.perf_counter(), session().nodes_s, resident_bytes()))

    start_run(loaded, job, RunOptions(run_dir=folder / f"runs-{nodes}", session="fake"), listen)
    # The last epoch's save comes after its mark: from mark to mark is one save of each.
    epochs = [
        later[0] - sooner[0] - (later[1] - sooner[1]) for sooner, later in itertools.pairwise(marks)
    ]
    fake = session()
    row = (
        (compiled - begun) * 1e3,
        (marks[0][0] - compiled - marks[0][1]) * 1e3,
        statistics.median(epochs) * 1e3,
        max(epochs) * 1e3,
        fake.messages / EPOCHS,
        fake.message_bytes / 1e3,
        (marks[-1][2] - before) / 1e3,
        (marks[-1][2] - marks[0][2]) / 1e3 / (EPOCHS - 1),
    )
    print(f"{nodes:8,}" + "".join(f" {figure / nodes:10.3f}" for figure in row), flush=True)


def resident_bytes() -> int:
    """The memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def session() -> FakeSession:
    """The one that runs."""
    return MADE[-1]


def main(arguments: list[str]) -> None:
    """Print the table."""
    sizes = (10, 100) if "quick" in arguments else (100, 1_000, 10_000)
    print("the master, a node    (aims: the same in each row, and an epoch below 1 ms)")
    head = ("nodes", "compile ms", "start ms", "epoch ms", "worst ms", "messages", "shares kB",
            "memory kB", "growth kB")  # fmt: skip
    print(f"{head[0]:>8}" + "".join(f" {title:>10}" for title in head[1:]))
    # Not on a disk: how long that takes is a matter of the nodes, and of ``bench_checkpoint``.
    with fake_nodes(), tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for nodes in sizes:
            measure(nodes, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
