"""Thousands of epochs leave nothing behind: what a process holds does not grow with them."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.durability.soak import growth, soak


@pytest.mark.long
@pytest.mark.timeout(600)
def test_thousands_of_epochs_hold_no_more_than_hundreds():
    # A process of its own: one that has run other tests gives memory back and takes it again.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawning) as fresh:
        grown = growth(fresh.submit(soak, 3_000).result())
    memory_bytes = grown.pop("memory_bytes")
    # An epoch that is being saved while they are counted is a directory with two files.
    assert grown.pop("entries") <= 6
    assert max(grown.values()) <= 0
    # 2,000 epochs that keep 1 KiB each would be as much.
    assert memory_bytes < 2 << 20
