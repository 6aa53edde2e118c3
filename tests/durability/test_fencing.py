"""A node that was cut off, replaced, and then goes on writing: nothing of it gets into an epoch."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from jobrun.blobs.values import same_bits
from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.store import Manifest
from jobrun.session.launch import Process
from jobrun.session.lost import NodeLostError
from jobrun.session.processes import ProcessesSession
from tests.session.contract import Room, _saving, _stored
from tests.support.graphs import call, group, task

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
    found: dict[int, threading.Event] = {}
    kill, end = Process.kill, Process.end

    def is_cut(process):
        return found.setdefault(process.pid, threading.Event()).is_set()

    def watch(process):
        while not is_cut(process) and process._process.poll() is None:
            found[process.pid].wait(0.02)

    monkeypatch.setattr(Process, "watch", watch)
    monkeypatch.setattr(Process, "kill", lambda one: None if is_cut(one) else kill(one))
    monkeypatch.setattr(Process, "end", lambda one: "was cut off" if is_cut(one) else end(one))
    return found


def begin(room, value):
    room.init(f"w = zeros(5) + {value}", "w", "a")
    room.init(f"w = zeros(5) + {value}", "w", "b")
    return tuple(room.run(_saving(STATE), 4).values())


def manifest(saves):
    return Manifest(4, "r", 0, tuple(save.file for save in saves), "")


@pytest.mark.long
@pytest.mark.parametrize("discarded", [True, False])
def test_a_node_that_was_replaced_cannot_add_to_an_epoch(tmp_path, cuts, discarded):
    session = ProcessesSession()
    room = Room(session, tmp_path, "a", "b")
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    (tmp_path / "fencing_library.py").write_text(LIBRARY)
    holding = call("fencing_library:hold_files", folder=repr(str(tmp_path)))
    room.run(group(task("t", holding, node="b")))
    tickets = begin(room, 1)
    stale = session._links["b"]._process._process
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
    made = session.persist(begin(room, 2), second)
    store.commit(second, manifest(made))
    (tmp_path / "go").touch()
    os.kill(stale.pid, signal.SIGCONT)
    # It ends by itself, since its master is gone.
    stale.wait(LONG_S)
    assert store.epochs() == (4,)
    assert store.verify(4) is None
    (file,) = [one for one in store.manifest(4).files if one.node == "b"]
    values = _stored(Path(store.path(4)), file, dict(STATE))
    assert same_bits(values["w"], np.zeros(5) + 2)
    store.sweep()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-000004"]
    session.close()
