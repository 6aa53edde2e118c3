from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.session.schedule import Part, check_needs, ready, released
from tests.support.graphs import task


def test_a_part_waits_for_all_it_follows():
    a, b, c = (Part(name, lambda: None) for name in "abc")
    c.follow(a)
    c.follow(b)

    assert ready([a, b, c]) == [a, b]
    assert list(released(a)) == []
    assert list(released(b)) == [c]


def test_needs_that_can_be_met_are_accepted():
    check_needs(
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
        check_needs(tasks)

    assert caught.value.faults[0].code == "E219"
