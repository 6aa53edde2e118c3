"""States are written while groups run: whatever these do, files have the boundary's bits."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.task_groups import save_group
from jobrun.checkpoint.write.snapshot_arena import Arena
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.steps import Guard, If, Loop, Parallel, While
from jobrun.graph.types import Job, NodeReport, NodeSetup, TaskGroup
from jobrun.runtime.group_plan import plan_group
from jobrun.runtime.snapshots.snapshot import Snapshot
from jobrun.session.threads.session import ThreadsSession, collect_changes
from jobrun.testing.graphs import call, cluster, expr, group, report, setup, steps, task
from jobrun.testing.sessions import SessionHarness
from jobrun.values.compare import same_bits

LIBRARY = """
import threading
import time

def change(x):
    for part in range(0, len(x), 1000):
        x[part : part + 1000] += 1
        time.sleep(0.002)

def change_view(x):
    half = x[::2]
    half *= 1.5

def look(x):
    assert not x.flags.writeable
    return float(x.sum())
"""
EVERY_WAY = {
    "op": "op += 1",
    "item": "item[0] = epoch",
    "part": "part[2:5] *= 2",
    "index": "index[[0, 0, 3]] += 1",
    "add": "add_at(add, [0, 0, 1], 1.5)",
    "rows": "maximum_at(rows, [1], epoch)",
    "first": "first, second = second, first; first += 1",
    "bound": "bound = bound * 0.5 + epoch",
    "copied": "copied2 = copied; copied2 += 1; copied = copied2 + 0",
    "viewed": "view = viewed[1:]; view += 1",
    "turned": "turned2 = turned.T; turned2 += 2; turned[0] += 1",
    "number": "number = number + 1",
    "counted": "seen = count_up(counted)",
    "total": "seen2 = atomic_add(total, 3)",
}
PLAIN = ["op", "item", "part", "index", "add", "rows", "first", "second", "bound", "copied",
         "viewed", "turned"]  # fmt: skip
DEEP = ["looped", "whiled", "branch", "guarded", "left", "right", "reported", "entered", "leaving",
        "called", "called_view", "looked", "wild", "of_node", "node_report"]  # fmt: skip
NAMES = (*PLAIN, *DEEP)
STATE = tuple(sorted((*NAMES, "number", "counted", "total", "given")))


def every_way() -> TaskGroup:
    """One group that changes state in every way there is."""
    blobs = " ".join(STATE)
    deep = (
        Loop(expr("3"), steps("looped += 1"), "e/t/loop"),
        While(expr("whiled[0] < 5"), steps("whiled += 1"), "e/t/while"),
        If(((expr("epoch > 0"), steps("branch += 1")),), (), "e/t/if"),
        Guard("stopped", steps("guarded += 1"), "e/t/guard"),
        Parallel((steps("left += 1"), steps("right[0] -= 1")), "e/t/parallel"),
        call("torn_library:change", x="called", inout="x"),
        call("torn_library:change_view", x="called_view", inout="x"),
        call("torn_library:look", x="looked", out="sum"),
    )
    plain = task(
        "plain",
        "; ".join(EVERY_WAY.values()),
        *deep,
        node_blobs=blobs,
        setup=(setup(["entered += 1"], ["leaving += 1"]),),
        reports=(report("reported += 1", interval_s=0.002),),
        outputs={"n": "count_up(given)"},
    )
    wild = task(
        "wild", "wild += 1", "wild[1:] *= 1.01", node_blobs=blobs, instances=3, hogwild=True
    )
    scopes = plain.scopes
    node_setup = NodeSetup("local", setup(["of_node += 1"], []), scopes)
    node_report = NodeReport("local", report("node_report += 1", path="e/report[0]"), scopes)
    return group(plain, wild, setup=(node_setup,), reports=(node_report,))


def saving(state: dict[str, tuple[str, ...]]) -> TaskGroup:
    """The group that begins to save these blobs."""
    policy = CheckpointPolicy(nodes=tuple(state))
    groups = [TaskGroup(name) for name in ("init", "epoch", "download", "exit")]
    return save_group(
        Job("j", cluster(*state), *groups, state=tuple(state.items()), checkpoint=policy), "run"
    )


@pytest.fixture
def harness(tmp_path):
    session = ThreadsSession()
    (tmp_path / "torn_library.py").write_text(LIBRARY)
    yield SessionHarness(session, tmp_path)
    session.close()


@pytest.fixture
def started(harness):
    zeros = "; ".join(
        f"{name} = arange(20000.0)" for name in NAMES if name not in ("rows", "turned")
    )
    harness.init(f"{zeros}; rows = zeros((2, 3)); turned = zeros((40, 30))", " ".join(STATE))
    harness.init(
        "number = 1; counted = counter(0); total = counter(5); given = counter(0)", " ".join(STATE)
    )
    return harness


@pytest.fixture
def slow(monkeypatch):
    """Copies and files that take their time, so that what could tear does."""
    copy, write = Arena.copy, NodeWriter.write

    def half_and_half(self, names, arrays):
        before = {name: arrays[name] for name in names}
        copies = copy(self, names, arrays)
        for name, array in before.items():
            if array.size > 1:
                time.sleep(0.003)
                half = array.size // 2
                copies[name].reshape(-1)[half:] = array.reshape(-1)[half:]
        return copies

    def slowly(self, path, **more):
        time.sleep(0.05)
        return write(self, path, **more)

    monkeypatch.setattr(Arena, "copy", half_and_half)
    monkeypatch.setattr(NodeWriter, "write", slowly)


def save_while_it_runs(harness, ran, epochs):
    """Save at each boundary while the next epoch runs; the names of what a file has wrongly."""
    wrong = []
    save, session = saving({"local": STATE}), harness.session
    for epoch in range(epochs):
        session.settle({"local": STATE})
        expected = session.read("local", STATE)
        tickets = tuple(session.run(save, epoch, {}).values())
        session.protect(tickets, [ran])
        folder = harness.folder / str(epoch)
        folder.mkdir()
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(session.persist, tickets, str(folder))
            session.run(ran, epoch + 1, {})
            (node_save,) = written.result()
        session.release(tickets)
        wrong += [
            name for name in STATE if not same_bits(stored(folder, node_save)[name], expected[name])
        ]
    return wrong


def stored(folder: Path, save):
    return read_state(
        str(folder / save.file.name),
        node="local",
        epoch=int(folder.name),
        run_id="run",
        digest=save.file.digest,
        names=STATE,
    )


@pytest.mark.long
def test_no_file_is_ever_torn_in_whatever_way_state_is_changed_meanwhile(started, slow):
    assert save_while_it_runs(started, every_way(), 4) == []


def test_without_the_gate_files_would_be_torn(started, slow, monkeypatch):
    """The test above could fail."""
    monkeypatch.setattr(Snapshot, "pass_gate", lambda self, names=None: None)

    assert len(set(save_while_it_runs(started, every_way(), 2))) > 10


def test_all_that_a_group_changes_in_place_is_known_before_it_runs(started):
    """What is not known to change is made read-only: to change it would be an error."""
    ran = every_way()
    (changed,), _ = collect_changes([plan_group(ran)])
    for epoch in range(3):
        started.session.settle({"local": STATE})
        workspace = started.session._workspaces["local"]
        frozen = {name: workspace[name] for name in STATE if name not in changed["local"]}
        arrays = [value for value in frozen.values() if isinstance(value, np.ndarray)]
        assert arrays
        before = [value.copy() for value in arrays]
        for value in arrays:
            value.flags.writeable = False

        started.session.run(ran, epoch + 1, {})

        assert all(map(same_bits, arrays, before))


def test_nodes_are_written_side_by_side(tmp_path, monkeypatch):
    session = ThreadsSession()
    harness = SessionHarness(session, tmp_path, "a", "b")
    for node in "ab":
        harness.init("w = ones(3)", "w", node)
    both = threading.Barrier(2)
    write = NodeWriter.write
    monkeypatch.setattr(
        NodeWriter,
        "write",
        lambda self, path, **more: (both.wait(100), write(self, path, **more))[1],
    )

    tickets = tuple(session.run(saving({"a": ("w",), "b": ("w",)}), 0, {}).values())
    saves = session.persist(tickets, str(tmp_path))

    assert [save.file.node for save in saves] == ["a", "b"]
    assert [(tmp_path / save.file.name).exists() for save in saves] == [True, True]
    session.close()


def test_errors_of_several_nodes_are_merged(tmp_path):
    session = ThreadsSession()
    harness = SessionHarness(session, tmp_path, "a", "b")
    for node in "ab":
        harness.init("w = ones(3)", "w", node)
    tickets = tuple(session.run(saving({"a": ("w",), "b": ("w",)}), 0, {}).values())

    with pytest.raises(EnvironmentFaultError) as caught:
        session.persist(tickets, str(tmp_path / "missing"))

    assert isinstance(caught.value, JobrunError)
    assert len(caught.value.faults) == 2
    session.close()
