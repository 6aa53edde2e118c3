"""Sessions against each other: a group of nothing, work of Python, transfers, and a lost node.

Run as ``python -m tests.benchmarks.bench_sessions``; with ``quick`` on few nodes, with ``ray``
only what a Ray cluster of this machine takes.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from jobrun.core.events import Event, Noted
from jobrun.graph.readers import (
    CounterSource,
    Field,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    WriteQueue,
)
from jobrun.graph.steps import Pull, PulledBlob
from jobrun.graph.types import Scope, TaskGroup
from jobrun.session.base import NodeLostError, RunContext, Session, open_session
from jobrun.testing.graphs import call, cluster, group, task
from tests.benchmarks.ratios import medians, show, verdict

LIBRARY = """
import os

def spin(n):
    total = 0
    for number in range(n):
        total += number * number % 7
    return total

def pid():
    return os.getpid()
"""
SPIN = 1_500_000
MIB = 1 << 20
LARGE = 64 * MIB
RECORDS = 2000


def nothing_told(event: Event) -> None:
    """Warnings only: a benchmark that fails should say so."""
    if isinstance(event, Noted):
        print(event.text)


@contextmanager
def opened(kind: str, nodes: int) -> Iterator[Session]:
    """A session of that many nodes, ``n0`` and so on."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench_library.py").write_text(LIBRARY)
        session = open_session(kind)
        names = [f"n{number}" for number in range(nodes)]
        session.open(cluster(*names), RunContext(1, folder, folder, nothing_told))
        try:
            yield session
        finally:
            session.close()


def runner(session: Session, ran: TaskGroup) -> Callable[[], object]:
    """Runs the group, each time as another epoch."""
    numbers = itertools.count(1)
    return lambda: session.run(ran, next(numbers), {})


def nothing(nodes: int) -> None:
    """Two tasks per node that do next to nothing."""
    ran = group(*(task(name, "x = 1", node=f"n{n}") for n in range(nodes) for name in "ab"))
    with opened("threads", nodes) as here, opened("processes", nodes) as there:
        times = medians(
            {"threads": runner(here, ran), "processes": runner(there, ran)},
            calls=max(5, 40 // nodes),
        )
    show(f"a group of nothing on {nodes} nodes", times, "threads")
    each_us = times["processes"] / nodes * 1e6
    print(f"  {'microseconds a node, of processes':44} {each_us:12,.1f}{verdict(each_us, 600)}")


def python_work() -> None:
    """A loop of Python on each of two nodes, against the same twice on one."""
    step = call("bench_library:spin", n=str(SPIN), out="x")
    same_node = group(task("a", step, node="n0"), task("b", step, node="n0"))
    two_nodes = group(task("a", step, node="n0"), task("b", step, node="n1"))
    with opened("threads", 2) as here, opened("processes", 2) as there:
        times = medians(
            {
                "processes, both on one node": runner(there, same_node),
                "processes, one on each of two nodes": runner(there, two_nodes),
                "threads, one on each of two nodes": runner(here, two_nodes),
            }
        )
    show(
        "Python work, with two idle cores",
        times,
        "processes, both on one node",
        {"processes, one on each of two nodes": 0.55},
    )
    print(f"  {'speed-up of two nodes over one':44} {_ratio(times):12.2f}")


def _ratio(times: dict[str, float]) -> float:
    first, second, *_ = times.values()
    return first / second


def averaging() -> None:
    """An epoch of four nodes that average their parameters, and compute next to nothing."""
    names = [f"n{number}" for number in range(4)]
    init = group(
        *(task("make", "w = zeros(10000)", node=name, node_blobs="w") for name in names),
        name="init",
        workspace="global",
    )
    pulled = Pull((PulledBlob("m", tuple(names), "w", "mean"),), "e/average/pull")
    ran = group(
        *(task("average", pulled, node=name, outputs={"m": "m"}) for name in names),
        *(
            task(
                "train",
                f"w = out('average', 'm', '{name}') + 1.0",
                node=name,
                node_blobs="w",
                needs=("average",),
            )
            for name in names
        ),
    )
    keep = dict.fromkeys(names, ("w",))
    with opened("threads", 4) as here, opened("processes", 4) as there:
        acts = {}
        for kind, session in (("threads", here), ("processes", there)):
            session.run(init, 0, {})
            acts[kind] = _epochs(session, ran, keep)
        times = medians(acts, calls=10)
    show("an epoch of averaging on 4 nodes", times, "threads")
    overhead_ms = (times["processes"] - times["threads"]) * 1e3
    print(f"  {'overhead of processes per epoch':44} {overhead_ms:12,.1f} ms")


def _epochs(
    session: Session, ran: TaskGroup, keep: Mapping[str, tuple[str, ...]]
) -> Callable[[], object]:
    act = runner(session, ran)

    def epoch() -> None:
        act()
        session.settle(keep)

    return epoch


def transfers(*kinds: str) -> None:
    """A large array pulled from another node, and read, in some sessions; and copied in memory."""
    values = np.zeros(LARGE, np.uint8)
    init = group(
        task("make", f"w = zeros({LARGE}, dtype=uint8)", node="n1", node_blobs="w"),
        name="init",
        workspace="global",
    )
    pulled = Pull((PulledBlob("m", ("n1",), "w"),), "e/t/pull")
    ran = group(task("t", pulled, "del m", node="n0"))
    acts: dict[str, Callable[[], object]] = {"a copy in memory": values.copy}
    with ExitStack() as stack:
        for kind in kinds:
            session = stack.enter_context(opened(kind, 2))
            session.run(init, 0, {})
            acts[f"{kind}, pull"] = runner(session, ran)
            if kind != "threads":
                acts[f"{kind}, read by the master"] = partial(session.read, "n1", ("w",))
        times = medians(acts, rounds=5)
    show(f"{LARGE // MIB} MiB from node to node", times, "a copy in memory")
    for name, seconds in times.items():
        print(f"  {name:44} {LARGE / MIB / seconds:12,.0f} MiB/s")


def queues(size_bytes: int) -> None:
    """Records through a queue between two nodes."""
    queue = Queue("q", shared=True)
    numbers = Reader("numbers", CounterSource(0, RECORDS), (Field("x", ""),))
    make = f"y = full({size_bytes // 8}, x)"
    writer = replace(
        task("w", make, node="n0"),
        read=ReadRecords(numbers),
        write=(WriteQueue(queue, ("y",)),),
        scopes=(("x", Scope.TASK), ("y", Scope.TASK)),
    )
    reader = replace(task("r", "z = y[0]", node="n1"), read=ReadQueue(queue, ("y",)))
    ran = group(writer, reader)
    with opened("threads", 2) as here, opened("processes", 2) as there:
        times = medians({"threads": runner(here, ran), "processes": runner(there, ran)}, rounds=3)
    show(f"{RECORDS} records of {size_bytes} bytes through a shared queue", times, "threads")
    for name, seconds in times.items():
        print(f"  {name:44} {RECORDS / seconds:12,.0f} records/s")


def nothing_on_ray(nodes: int) -> None:
    """As ``nothing``, with actors of a cluster in place of processes."""
    ran = group(*(task(name, "x = 1", node=f"n{n}") for n in range(nodes) for name in "ab"))
    with opened("processes", nodes) as here, opened("ray", nodes) as there:
        times = medians(
            {"processes": runner(here, ran), "ray": runner(there, ran)}, calls=max(5, 40 // nodes)
        )
    show(f"a group of nothing on {nodes} nodes", times, "processes")


def recovery(kind: str = "processes") -> None:
    """From kill -9 of a node to the end of the next group that ran on it."""
    who = group(
        *(
            task("t", call("bench_library:pid", out="x"), node=n, outputs={"x": "x"})
            for n in ("n0", "n1")
        )
    )
    seconds = []
    with opened(kind, 2) as session:
        for _ in range(5):
            victim = next(iter(session.run(who, 1, {}).values()))
            begun = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            try:
                while True:
                    session.run(who, 1, {})
            except NodeLostError:
                noticed = time.perf_counter() - begun
                session.renew()
                session.run(who, 1, {})
            seconds.append((noticed, time.perf_counter() - begun))
    noticed, recovered = (statistics.median(column) for column in zip(*seconds, strict=True))
    aim = verdict(recovered, 1.0 if kind == "processes" else 5.0)
    print(f"\n{kind}: kill -9 of one of two nodes")
    print(f"  {'noticed after':44} {noticed * 1e3:12,.1f} ms")
    print(f"  {'a new process has run a group after':44} {recovered * 1e3:12,.1f} ms{aim}")


def main(arguments: list[str]) -> None:
    """Print all tables."""
    if "ray" in arguments:
        for nodes in (1, 4, 16):
            nothing_on_ray(nodes)
        transfers("ray")
        recovery("ray")
        return
    for nodes in (1, 2) if "quick" in arguments else (1, 2, 4, 16):
        nothing(nodes)
    python_work()
    averaging()
    transfers("threads", "processes")
    for size_bytes in (64, 1 << 14):
        queues(size_bytes)
    recovery()


if __name__ == "__main__":
    main(sys.argv[1:])
