"""Several nodes of a job in one place: fewer processes, the same nodes, the same bits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.graph.types import Cluster
from jobrun.session.base import RunContext
from jobrun.session.processes.session import ProcessesSession
from jobrun.testing.sessions import SessionContract
from tests.support.command import JOBRUN, environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run

# Every way in which nodes have to do with each other: needs, outputs, pull, queues, metrics.
SPEC = """\
jobrun: 1
name: four
seed: 3
nodes: {t: {count: 4}}
queues: {all: {shared: true}, own: {}}
init: [{task: make, node: t, steps: ["w = rng.random(50)", "seen = zeros(4)", "got = 0.0"]}]
epoch:
  - task: average
    node: t
    steps: [{pull: {m: {from: t, blob: w, reduce: mean}, every: {from: t, blob: w, reduce: stack}}}]
    outputs: [m, {top: "max(every)"}]
  - {task: walk, node: t, needs: [average], steps: ["w = average.m + rng.random(50) * average.top"]}
  - {task: give, node: t, steps: [x = node.index], write: {all: [x], own: [x]}}
  - {task: take, node: t_3, read: all, steps: ["seen[x] += 1"]}
  - {task: keep, node: t, read: own, steps: [got = got + x]}
metrics: {spread: {of: "max(w) - min(w)", nodes: t, reduce: max}}
stop: [{epochs: EPOCHS}]
checkpoint: {every: 1ep}
"""
MAPS = (["t_1=t_0"], ["t_1=t_0", "t_3=t_2"], ["t_0=t_3", "t_1=t_3", "t_2=t_3"])


class _Pairs(ProcessesSession):
    """Every second node is in the place of the one before it."""

    def open(self, cluster: Cluster, context: RunContext) -> None:
        names = [node.name for node in cluster]
        pairs = dict(zip(names[1::2], names[::2], strict=False))
        super().open(cluster, replace(context, placement=pairs))


@pytest.mark.long
class TestPairsOfNodes(SessionContract):
    @pytest.fixture
    def session(self) -> Iterable[ProcessesSession]:
        session = _Pairs(grace_s=2.0)
        yield session
        session.close()


# The rest has nothing to do with how many nodes a place has.
_OF_PLACES = re.compile("needs|output|pull|queue|settle|snapshot|restore|save|boundary|names")
for _name in [name for name in dir(SessionContract) if name.startswith("test_")]:
    if not _OF_PLACES.search(_name):
        setattr(TestPairsOfNodes, _name, None)


def _run(folder: Path, name: str, *words: str, count: int = 5) -> Path:
    (folder / "four.yaml").write_text(SPEC.replace("EPOCHS", str(count)))
    done = jobrun("run", "four.yaml", "--run-dir", name, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder / name)


def _bits(run: Path) -> list[object]:
    return [blobs(path) for _, path in sorted(epochs(run).items())]


@pytest.mark.long
@pytest.mark.parametrize("chosen", MAPS)
def test_nodes_that_share_a_place_have_the_bits_of_those_that_do_not(tmp_path, chosen):
    words = [word for mapping in chosen for word in ("--map", mapping)]
    actual = _run(tmp_path, "mapped", "--session", "processes", *words)

    assert _bits(actual) == _bits(_run(tmp_path, "threads", *words))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_when_a_shared_machine_is_lost_all_its_nodes_restart(tmp_path):
    expected = _run(tmp_path, "whole", count=60)
    command = [*JOBRUN, "run", "four.yaml", "--session", "processes", "--log-format", "json",
               "--map", "t_1=t_0", "--map", "t_3=t_2", "--run-dir", "lost"]  # fmt: skip
    replaced = []
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        has_killed = False
        for line in child.stderr:
            event = json.loads(line)
            if event.get("event") == "EpochEnded" and not has_killed:
                has_killed = True
                os.kill(_process_of("t_2", child.pid), signal.SIGKILL)
            if event.get("event") == "NodeReplaced":
                replaced.append(event["node"])

    assert child.returncode == 0
    assert replaced == ["t_2", "t_3"]
    assert _bits(only_run(tmp_path / "lost")) == _bits(expected)


def _process_of(node: str, master: int) -> int:
    """The process of a place: below the master, with the name of its node at the end."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            b"jobrun.session.processes.worker" in words
            and node.encode() in words
            and _below(path, master)
        ):
            return int(path.name)
    raise AssertionError(f"there is no process of {node}")


def _below(path: Path, master: int) -> bool:
    pid = int(path.name)
    while pid > 1 and pid != master:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == master
