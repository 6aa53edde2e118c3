from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.threads.thread_pool import ThreadPool


def test_a_thread_is_free_again_before_done_is_called():
    crew, ended, threads = ThreadPool(nullcontext), SimpleQueue(), []
    for _ in range(10):
        crew.start(lambda: threads.append(threading.get_ident()), lambda: ended.put(None))
        ended.get()
    crew.close()

    assert len(set(threads)) == 1


def test_overlapping_work_gets_separate_threads():
    crew, ended, meeting = ThreadPool(nullcontext), SimpleQueue(), threading.Barrier(5)
    for _ in range(5):
        crew.start(meeting.wait, lambda: ended.put(None))
    for _ in range(5):
        ended.get()

    crew.close()
    crew.close()


def test_each_thread_lives_inside_its_context():
    happened = []

    @contextmanager
    def inside():
        happened.append("in")
        yield
        happened.append("out")

    crew, ended = ThreadPool(inside), SimpleQueue()
    crew.start(lambda: happened.append("work"), lambda: ended.put(None))
    ended.get()
    crew.close()

    assert happened == ["in", "work", "out"]


def test_closed_pool_starts_no_thread():
    crew = ThreadPool(nullcontext)
    crew.close()

    with pytest.raises(RuntimeError, match="closed"):
        crew.start(lambda: None, lambda: None)


def test_finished_work_is_not_held_on_to():
    import gc  # noqa: PLC0415
    import weakref  # noqa: PLC0415

    class Work:
        def __call__(self) -> None:
            pass

    crew, ended = ThreadPool(nullcontext), SimpleQueue()
    work = Work()
    gone = weakref.ref(work)
    crew.start(work, lambda: ended.put(None))
    del work
    ended.get()
    gc.collect()

    assert gone() is None
    crew.close()


def test_a_thread_that_the_system_refuses_is_not_waited_for(monkeypatch):
    crew = ThreadPool(nullcontext)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(EnvironmentFaultError, match="E391"):
            crew.start(list, list)
    crew.close()
