from __future__ import annotations

import pytest

from jobrun.session.threads import thread_pool as spare
from jobrun.session.threads.thread_pool import IdleCpuStarter, count_runnable_threads


class Recording:
    """What is started in it."""

    def __init__(self):
        self.started = []

    def start(self, work, done):
        self.started.append((work, done))


def act():
    """Work."""


@pytest.mark.parametrize(("processors", "busy", "is_started"), [(2, 1, True), (2, 2, False)])
def test_work_is_started_only_where_a_processor_is_idle(monkeypatch, processors, busy, is_started):
    crew = Recording()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(spare, "count_runnable_threads", lambda: busy)

    if is_started:
        IdleCpuStarter(crew)(act, act)
    else:
        with pytest.raises(RuntimeError, match="idle"):
            IdleCpuStarter(crew)(act, act)

    assert crew.started == ([(act, act)] if is_started else [])


def test_thread_of_the_process_counts_as_running():
    assert count_runnable_threads() >= 1


def test_runnable_threads_are_counted_from_loadavg(tmp_path, monkeypatch):
    path = tmp_path / "loadavg"
    path.write_text("0.50 0.40 0.30 3/150 4711\n")
    monkeypatch.setattr(spare, "_LOAD", str(path))

    assert count_runnable_threads() == 3


@pytest.mark.parametrize("content", [None, "", "what?", "0.1 0.2 0.3 many/all 7"])
def test_no_processor_counts_as_idle_without_loadavg(tmp_path, monkeypatch, content):
    path = tmp_path / "loadavg"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(spare, "_LOAD", str(path))

    assert count_runnable_threads() == float("inf")
