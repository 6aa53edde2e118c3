from __future__ import annotations

from jobrun.core.errors import Origin
from jobrun.graph.divided_state import FilePart, Rows, StateLayout


def test_a_declaration_is_the_same_wherever_it_stands():
    here = StateLayout("U", "rows", "state.U", Origin("a.yaml", 3, 9, 1))
    there = StateLayout("U", "rows", "state.U", Origin("b.yaml", 7, 2, 1))

    assert here == there
    assert here != StateLayout("U", "replicated", "state.U")


def test_rows_without_bounds_are_the_whole_value():
    part = FilePart("t_0.h5", "t_0", "", (Rows("V"), Rows("U", 0, 2)))

    assert [one.first for one in part.blobs] == [None, 0]
