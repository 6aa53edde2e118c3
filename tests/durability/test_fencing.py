"""A node that was cut off, replaced, and then goes on writing: nothing of it gets into an epoch."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError
from jobrun.session import node_files
from jobrun.session.base import NodeFiles, NodeLostError
from jobrun.session.processes.session import ProcessesSession
from jobrun.session.wire.rpc import Reply
from jobrun.session.wire.worker_handle import LocalProcess
from jobrun.testing.graphs import call, group, task
from jobrun.testing.sessions import SessionHarness, read_saved, saving_group
from jobrun.values.compare import same_bits

LONG_S = 60
LIBRARY = """
import os
import pathlib
import time


def hold_files(folder):
    sync = os.fsync

    def held(descriptor):
        pathlib.Path(folder, "held").touch()
        while not pathlib.Path(folder, "go").exists():
            time.sleep(0.002)
        sync(descriptor)

    os.fsync = held
"""
STATE = (("a", ("w",)), ("b", ("w",)))


@pytest.fixture
def cuts(monkeypatch):
    """The processes, by number, that the master can neither hear nor end; set to cut one off."""
    events: dict[int, threading.Event] = {}
    kill, join = LocalProcess.kill, LocalProcess.join

    def is_cut(process):
        return events.setdefault(process.pid, threading.Event()).is_set()

    def wait_for_exit(process):
        while not is_cut(process) and process._process.poll() is None:
            events[process.pid].wait(0.02)

    monkeypatch.setattr(LocalProcess, "wait_for_exit", wait_for_exit)
    monkeypatch.setattr(
        LocalProcess, "kill", lambda process: None if is_cut(process) else kill(process)
    )
    monkeypatch.setattr(
        LocalProcess, "join", lambda process: "was cut off" if is_cut(process) else join(process)
    )
    return events


def begin(harness, value):
    harness.init(f"w = zeros(5) + {value}", "w", "a")
    harness.init(f"w = zeros(5) + {value}", "w", "b")
    return tuple(harness.run(saving_group(STATE), 4).values())


def manifest(saves):
    return Manifest(4, "r", 0, tuple(save.file for save in saves), "")


@pytest.mark.long
@pytest.mark.parametrize("discarded", [True, False])
def test_a_node_that_was_replaced_cannot_add_to_an_epoch(tmp_path, cuts, discarded):
    session = ProcessesSession()
    harness = SessionHarness(session, tmp_path, "a", "b")
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    (tmp_path / "fencing_library.py").write_text(LIBRARY)
    holding = call("fencing_library:hold_files", folder=repr(str(tmp_path)))
    harness.run(group(task("t", holding, node="b")))
    tickets = begin(harness, 1)
    stale = session._workers["b"]._process._process
    first = store.stage(4)
    errors = []

    def save():
        try:
            session.persist(tickets, first)
        except NodeLostError as error:
            errors.append(error)

    saving = threading.Thread(target=save)
    saving.start()
    # It has written its file, and has yet to say so.
    while not ((tmp_path / "held").exists() and Path(first, "a.h5").exists()):
        saving.join(0.02)
    os.kill(stale.pid, signal.SIGSTOP)
    assert Path(first, "b.h5").exists()
    cuts[stale.pid].set()
    saving.join(LONG_S)
    assert [error.node for error in errors] == ["b"]
    if discarded:
        store.discard(first)

    assert session.renew() == ("b",)
    second = store.stage(4)
    saves = session.persist(begin(harness, 2), second)
    store.commit(second, manifest(saves))
    (tmp_path / "go").touch()
    os.kill(stale.pid, signal.SIGCONT)
    # It ends by itself, since its master is gone.
    stale.wait(LONG_S)
    assert store.epochs() == (4,)
    assert store.verify(4) is None
    (file,) = [saved for saved in store.manifest(4).files if saved.node == "b"]
    values = read_saved(Path(store.path(4)), file, dict(STATE))
    assert same_bits(values["w"], np.zeros(5) + 2)
    store.sweep()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-000004"]
    session.close()


def large(harness, value):
    """State of which that of b is several pieces."""
    harness.init(f"w = zeros(5) + {value}", "w", "a")
    harness.init(f"w = zeros(1500000) + {value}", "w", "b")
    return tuple(harness.run(saving_group(STATE), 4).values())


@pytest.fixture
def apart(tmp_path, cuts):
    """Nodes whose files are collected; each can be cut off."""
    session = ProcessesSession()
    files = NodeFiles(("a", "b"), node_dir=str(tmp_path / "own" / "jobrun-r"))
    yield SessionHarness(session, tmp_path, "a", "b", files=files)
    session.close()


@pytest.fixture
def cut_off(apart, cuts, tmp_path, monkeypatch):
    """Cuts b off when its second piece is asked for; the stale process, and what came of it."""
    session, pieces = apart.session, []
    tickets = large(apart, 1)
    stale = session._workers["b"]._process._process
    original = node_files._collect_save

    def cutting(link, save, directory):
        ask = link.rpc.call

        def asked(kind, *arguments):
            answer = ask(kind, *arguments)
            if arguments[-1]:
                os.kill(stale.pid, signal.SIGSTOP)
                cuts.setdefault(stale.pid, threading.Event()).set()
                return answer
            pieces.append(answer.wait())
            again = Reply()
            again.put((True, pieces[-1]))
            return again

        if link.node == "b" and link.pid == stale.pid:
            monkeypatch.setattr(link.rpc, "call", asked)
        return original(link, save, directory)

    monkeypatch.setattr(node_files, "_collect_save", cutting)
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    with pytest.raises(NodeLostError) as caught:
        session.persist(tickets, store.stage(4))
    assert caught.value.node == "b"
    assert session.renew() == ("b",)
    yield store, stale, pieces[0]
    if stale.poll() is None:
        stale.kill()
        os.kill(stale.pid, signal.SIGCONT)
        stale.wait(LONG_S)


def check_epoch(store):
    assert store.epochs() == (4,)
    assert store.verify(4) is None
    (file,) = [saved for saved in store.manifest(4).files if saved.node == "b"]
    values = read_saved(Path(store.path(4)), file, dict(STATE))
    assert same_bits(values["w"], np.zeros(1500000) + 2)


@pytest.mark.long
def test_a_node_cut_off_while_its_file_is_collected_adds_nothing_to_an_epoch(
    apart, cut_off, tmp_path
):
    store, stale, _ = cut_off
    staged = store.stage(4)
    saves = apart.session.persist(large(apart, 2), staged)
    os.kill(stale.pid, signal.SIGCONT)
    # It answers what it was asked, to nobody, and ends by itself.
    stale.wait(LONG_S)
    store.commit(staged, manifest(saves))

    check_epoch(store)
    apart.session.close()
    assert list((tmp_path / "own").iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("token", ["that of its save", "that of the new one"])
def test_late_file_of_a_replaced_node_is_refused(apart, cut_off, monkeypatch, token):
    store, _, late = cut_off
    link = apart.session._workers["b"]
    assert (late.incarnation, link.incarnation) == (2, 3)
    staged = store.stage(4)
    if token == "that of the new one":
        late = replace(late, token=Path(staged).name)
    ask = link.rpc.call

    def asked(kind, *arguments):
        if kind != "chunk":
            return ask(kind, *arguments)
        answer = Reply()
        answer.put((True, late))
        return answer

    tickets = large(apart, 2)
    with monkeypatch.context() as patched:
        patched.setattr(link.rpc, "call", asked)
        with pytest.raises(EnvironmentFaultError, match="incarnation 2") as caught:
            apart.session.persist(tickets, staged)
    assert [fault.code for fault in caught.value.faults] == ["E327"]
    store.discard(staged)

    # The next try takes what the node in its place writes.
    again = store.stage(4)
    store.commit(again, manifest(apart.session.persist(tickets, again)))
    check_epoch(store)
