from __future__ import annotations

import threading

import numpy as np
import pytest

from jobrun.ops.numpy_implementations import (
    atomic_add,
    atomic_max,
    count_down,
    count_reset,
    count_up,
    count_value,
    counter,
)


def test_each_change_returns_the_previous_value():
    counter_ = counter(2)

    assert count_up(counter_) == 2
    assert atomic_add(counter_, np.int64(4)) == 3
    assert atomic_max(counter_, 5) == 7
    assert atomic_max(counter_, 9) == 7
    assert count_reset(counter_) == 9
    assert count_value(counter_) == 0


def test_count_down_reports_zero_and_continues_below():
    counter_ = counter(1)

    assert [count_down(counter_) for _ in range(3)] == [False, True, True]
    assert count_value(counter_) == -2


def test_exactly_one_of_many_threads_sees_each_number():
    counter_, seen = counter(0), []

    def work():
        seen.extend(count_up(counter_) for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == list(range(2000))


def test_a_number_is_no_counter():
    with pytest.raises(TypeError, match=r"counter\(0\)"):
        count_up(3)


def test_a_counter_counts_whole_numbers():
    with pytest.raises(TypeError):
        counter(1.5)
    with pytest.raises(TypeError):
        atomic_add(counter(0), 0.5)


def test_a_counter_does_not_begin_below_zero():
    with pytest.raises(ValueError, match="0 or more, not at -1"):
        counter(-1)
