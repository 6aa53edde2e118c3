from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.session.threads.work_items import (
    WorkItem,
    find_ready,
    iter_released,
    require_valid_needs,
)
from jobrun.testing.graphs import task


def test_a_part_waits_for_all_it_follows():
    a, b, c = (WorkItem(name, lambda: None) for name in "abc")
    c.run_after(a)
    c.run_after(b)

    assert find_ready([a, b, c]) == [a, b]
    assert list(iter_released(a)) == []
    assert list(iter_released(b)) == [c]


def test_needs_that_can_be_met_are_accepted():
    require_valid_needs(
        [task("a", needs=("b", "c")), task("b", needs=("c",)), task("c"), task("c", node="n")]
    )


@pytest.mark.parametrize(
    "tasks",
    [
        [task("a", needs=("a",))],
        [task("a", needs=("b",)), task("b", needs=("c",)), task("c", needs=("a",)), task("d")],
        [task("a", needs=("gone",))],
    ],
)
def test_needs_that_can_not_are_refused(tasks):
    with pytest.raises(TaskFailedError) as caught:
        require_valid_needs(tasks)

    assert caught.value.faults[0].code == "E219"
