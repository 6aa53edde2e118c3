from __future__ import annotations

import threading

import pytest

from jobrun.session.link import Link
from jobrun.session.lost import NodeLostError
from jobrun.session.share import shares_of
from tests.support.graphs import cluster, group, log, task


class Hearer:
    """Keeps what is heard."""

    def __init__(self):
        self.lost_nodes = []
        self.is_lost = threading.Event()

    def lost(self, node):
        self.lost_nodes.append(node)
        self.is_lost.set()


@pytest.fixture
def opened(tmp_path):
    events, hearer = [], Hearer()
    link = Link("n", hearer, events.append)
    (node,) = cluster("n")
    link.calls.ask("open", node, (7, str(tmp_path), str(tmp_path)), 5.0).wait()
    yield link, hearer, events
    link.begin_to_close()
    link.close()
    link.close()


def test_a_node_is_asked_and_heard(opened):
    link, hearer, events = opened
    share = shares_of(group(task("t", log("hello"), node="n"))).by_node["n"]
    link.know(1, share)
    link.know(1, share)

    made = link.calls.ask("run", 1, 1, 1, {}, None).wait()
    link.forget(1)
    with pytest.raises(KeyError):
        link.calls.ask("read", ("w",)).wait()

    assert made == {}
    assert [type(event).__name__ for event in events] == ["Logged", "TaskEnded"]
    assert hearer.lost_nodes == []


@pytest.mark.long
def test_a_node_that_was_killed_is_lost_for_all_who_ask(opened):
    link, hearer, _ = opened

    link.kill()
    assert hearer.is_lost.wait(10)

    with pytest.raises(NodeLostError, match="SIGKILL"):
        link.calls.ask("names").wait()
    assert link.loss is not None
    assert hearer.lost_nodes == ["n"]
    link.send("close")
