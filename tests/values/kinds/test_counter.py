from __future__ import annotations

import threading

from jobrun.values.kinds.counter import Counter


def test_changes_answer_with_what_was_there():
    counter = Counter(2)

    assert counter.up() == 2
    assert counter.add(5) == 3
    assert counter.maximum(4) == 8
    assert counter.maximum(10) == 8
    assert counter.reset() == 10
    assert counter.value == 0


def test_down_says_whether_it_was_zero_or_less_and_continues_below():
    counter = Counter(1)

    assert [counter.down() for _ in range(3)] == [False, True, True]
    assert counter.value == -2


def test_it_is_formatted_as_its_number():
    assert f"{Counter(7):03d}" == "007"
    assert repr(Counter(7)) == "Counter(7)"


def test_no_change_is_lost_between_threads():
    counter = Counter(0)

    def work() -> None:
        for _ in range(2000):
            counter.up()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counter.value == 8000


def test_exactly_one_thread_sees_the_limit_reached():
    counter = Counter(100)
    seen: list[bool] = []

    def work() -> None:
        seen.extend(counter.down() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen.count(False) == 100
