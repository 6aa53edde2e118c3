"""Whether saves go on beside the run, from what the spec says and what memory is free."""

from __future__ import annotations

import pytest

from jobrun.runner.saving.memory_budget import MemoryBudget, free_memory_bytes

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize("wanted", [True, False])
def test_spec_decides_regardless_of_free_memory(wanted):
    assert MemoryBudget(wanted, lambda: 0).allows(GIB) is wanted


@pytest.mark.parametrize(("state", "allowed"), [(100 * MIB, True), (GIB, False), (0, True)])
def test_by_default_a_copy_must_fit_into_half_of_the_free_memory(state, allowed):
    assert MemoryBudget(None, lambda: GIB).allows(state) is allowed


def test_the_system_is_asked_again_only_when_the_state_has_grown():
    asked = []
    room = MemoryBudget(None, lambda: asked.append(1) or GIB)

    assert [room.allows(size * MIB) for size in (100, 100, 105, 90, 300)] == [True] * 5
    assert len(asked) == 2
    assert not room.allows(4 * GIB)


def test_memory_in_use_is_not_counted_twice():
    free = [GIB]
    room = MemoryBudget(None, lambda: free[0])
    assert room.allows(400 * MIB)
    free[0] = 624 * MIB

    assert room.allows(500 * MIB)


def test_free_memory_is_what_the_system_and_the_group_leave(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       100 kB\nMemAvailable:    64 kB\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert free_memory_bytes(meminfo, tmp_path) == 64 << 10

    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory_bytes(meminfo, tmp_path) == 64 << 10

    (tmp_path / "memory.max").write_text("3000\n")
    assert free_memory_bytes(meminfo, tmp_path) == 2000
    assert free_memory_bytes(tmp_path / "none", tmp_path) == 0


def test_free_memory_of_this_machine_is_known():
    assert free_memory_bytes() > 0
