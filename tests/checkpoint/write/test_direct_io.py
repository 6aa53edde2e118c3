from __future__ import annotations

import errno
import mmap
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.write.direct_io import (
    MOST_SLABS,
    SLAB_BYTES,
    FileWriter,
    SlabPool,
    map_memory,
)


@pytest.fixture
def descriptor(tmp_path):
    descriptor = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def test_slabs_begin_at_a_page_and_are_used_again():
    pool = SlabPool()
    slab = pool.take(10_000)
    assert slab.ctypes.data % mmap.PAGESIZE == 0
    assert 10_000 <= slab.size < SLAB_BYTES

    pool.give(slab)

    assert pool.take(10_000) is slab


def test_there_are_never_more_than_four_of_16_mib():
    pool = SlabPool()
    taken = [pool.take(1 << 40) for _ in range(MOST_SLABS)]
    assert {slab.size for slab in taken} == {SLAB_BYTES}
    threading.Timer(0.05, pool.give, (taken[2],)).start()

    assert pool.take(1 << 40) is taken[2]


def _flags_of_memory(address: int) -> list[str]:
    """The kernel's flags of the mapping that holds an address (proc_pid_smaps(5))."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            begin, end = (int(part, 16) for part in words[0].split("-"))
            inside = begin <= address < end
        elif inside and words[0] == "VmFlags:":
            return words
    raise AssertionError(hex(address))


def test_memory_for_direct_writes_may_have_huge_pages_from_two_mib_on():
    memory = np.frombuffer(map_memory(5 << 20), np.uint8)
    assert memory.size == 6 << 20
    has_them = Path("/sys/kernel/mm/transparent_hugepage").exists()
    assert ("hg" in _flags_of_memory(memory.ctypes.data)) == has_them
    # A page is enough for what is small.
    assert len(map_memory(5_000)) < (2 << 20)


def test_a_larger_file_gets_larger_slabs():
    pool = SlabPool()
    pool.give(pool.take(5_000))

    assert pool.take(1_000_000).size >= 1_000_000


@pytest.mark.parametrize("threaded", [False, True])
def test_pieces_are_at_their_offsets(descriptor, threaded):
    file = FileWriter(descriptor, direct=False)
    if threaded:
        file.start()

    for number in (3, 1, 2):
        file.write(np.full(10, number, np.uint8), number * 10)
    file.wait()

    assert os.pread(descriptor, 99, 10) == b"\1" * 10 + b"\2" * 10 + b"\3" * 10


def test_without_o_direct_the_page_cache_is_used(descriptor, monkeypatch):
    file = FileWriter(descriptor, direct=True)
    refused = []
    whole = os.pwrite

    def refuse(fd, data, at):
        if not refused:
            refused.append(at)
            raise OSError(errno.EINVAL, "Invalid argument")
        return whole(fd, data, at)

    monkeypatch.setattr(os, "pwrite", refuse)
    file.write(np.full(7, 5, np.uint8), 3)

    assert refused == [3]
    assert not file.is_direct
    assert os.pread(descriptor, 7, 3) == b"\5" * 7


def test_an_error_of_the_thread_is_raised_where_the_writer_waits(descriptor, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", refuse)
    file = FileWriter(descriptor, direct=False)
    file.start()
    returned = []
    file.write(np.zeros(5, np.uint8), 0)
    file.then(lambda: returned.append("slab"))

    with pytest.raises(OSError, match="Input/output"):
        file.wait()

    assert returned == ["slab"]
    assert threading.active_count() == 1 or not any(
        thread.name == "checkpoint-writer" for thread in threading.enumerate()
    )
