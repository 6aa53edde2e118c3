from __future__ import annotations

import threading
import time

import pytest

from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.runtime.records.cursor import DEPTH, Prefetcher
from jobrun.runtime.records.row_iterators import CountedRecord
from tests.support.step_bench import Bench


class _Feed:
    def __init__(self, count, wait_s=0.0):
        self.count, self.wait_s = count, wait_s
        self.at = 0
        self.threads = set()

    def next(self):
        self.threads.add(threading.get_ident())
        if self.at >= self.count:
            return None
        time.sleep(self.wait_s)
        self.at += 1
        return CountedRecord((self.at,), 1)

    def take_ready(self):
        return ()


def _all(ahead, cancel, most=1000):
    collected = []
    while len(collected) < most and (record := ahead.next(cancel)) is not None:
        collected.append(record[0][0])
    return collected


@pytest.fixture
def bench():
    with Bench() as bench:
        yield bench


@pytest.mark.parametrize("delay_s", [0.0, 1e-4])
@pytest.mark.parametrize("wait_s", [0.0, 1e-3])
def test_records_are_the_feeds_in_its_order_whatever_they_take(bench, delay_s, wait_s):
    ahead = Prefetcher(_Feed(30, wait_s), delay_s)
    ahead.begin(bench.crew.start)

    assert _all(ahead, bench.frame.cancel) == list(range(1, 31))
    assert ahead.next(bench.frame.cancel) is None
    ahead.end(bench.frame.cancel)


@pytest.mark.parametrize(("slow_s", "threads"), [(1e9, 1), (0.0, 2)])
def test_only_a_slow_source_gets_a_thread(bench, monkeypatch, slow_s, threads):
    monkeypatch.setattr("jobrun.runtime.records.cursor._SLOW_S", slow_s)
    monkeypatch.setattr("jobrun.runtime.records.cursor._MEASURED_S", 0.0)
    feed = _Feed(100)
    ahead = Prefetcher(feed, 0.0)
    ahead.begin(bench.crew.start)
    _all(ahead, bench.frame.cancel)
    ahead.end(bench.frame.cancel)

    assert len(feed.threads) == threads


def test_no_more_is_taken_ahead_than_may_be(bench):
    feed = _Feed(100)
    ahead = Prefetcher(feed, 1e-6)
    ahead.begin(bench.crew.start)
    ahead.next(bench.frame.cancel)
    time.sleep(0.05)

    assert feed.at <= DEPTH + 1
    ahead.end(bench.frame.cancel)


def test_prefetched_records_are_read_in_the_next_run(bench):
    ahead = Prefetcher(_Feed(9), 1e-6)
    collected = []
    for _ in range(5):
        ahead.begin(bench.crew.start)
        collected += _all(ahead, bench.frame.cancel, 2)
        ahead.end(bench.frame.cancel)

    assert collected == list(range(1, 10))


@pytest.mark.parametrize("delay_s", [0.0, 1e-6])
def test_an_error_comes_where_its_record_would(bench, delay_s):
    class Broken(_Feed):
        def next(self):
            if self.at == 2:
                raise ValueError("broken")
            return super().next()

    ahead = Prefetcher(Broken(9), delay_s)
    ahead.begin(bench.crew.start)

    assert _all(ahead, bench.frame.cancel, 2) == [1, 2]
    assert not ahead.is_lost
    with pytest.raises(ValueError, match="broken"):
        ahead.next(bench.frame.cancel)
    ahead.end(bench.frame.cancel)
    assert ahead.is_lost


def test_a_wait_ends_when_the_run_is_cancelled(bench):
    scope = CancelScope()
    ahead = Prefetcher(_Feed(9), 60.0)
    ahead.begin(bench.crew.start)
    threading.Timer(0.05, scope.cancel).start()

    with pytest.raises(CancelledError):
        ahead.next(scope)
    ahead.end(scope)


def test_a_blocked_source_is_abandoned_after_a_cancel(bench, monkeypatch):
    monkeypatch.setattr("jobrun.runtime.records.cursor._GRACE_S", 0.05)
    release = threading.Event()

    class Stuck(_Feed):
        def next(self):
            release.wait(100)

    scope = CancelScope()
    ahead = Prefetcher(Stuck(9), 1e-6)
    ahead.begin(bench.crew.start)
    threading.Timer(0.05, scope.cancel).start()
    with pytest.raises(CancelledError):
        ahead.next(scope)
    ahead.end(scope)
    release.set()

    assert ahead.is_lost
