"""What saving and loading a state costs, against the disk itself and against other formats.

Run as ``python -m tests.benchmarks.bench_checkpoint [A B … M]``. All variants take turns; told
are medians, and medians of the ratios within each turn.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import numpy as np
import xxhash

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.hdf5.index_parser import index_span
from jobrun.checkpoint.hdf5.metadata_template import BLOBS_TYPE
from jobrun.checkpoint.hdf5.user_block import Parts
from jobrun.checkpoint.read.load import MOST_THREADS, load
from jobrun.checkpoint.read.load_into_objects import InPlace
from jobrun.checkpoint.read.verified_file import TOGETHER, open_state
from jobrun.checkpoint.write.direct_io import FileWriter, map_memory
from jobrun.checkpoint.write.encoder import build_encoder
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.files.disk import sync_directory
from jobrun.core.system_calls import usable_cpus
from jobrun.runtime.snapshots.node_objects import load_object_state
from tests.benchmarks import peers
from tests.benchmarks.checkpoint_cases import CASES, SCALE, Values, changed_in_part, size_bytes
from tests.benchmarks.ratios import verdict

ROUNDS = int(os.environ.get("JOBRUN_BENCH_ROUNDS", "5"))
RAW = "raw O_DIRECT write + fsync"
# What sets the floor for saves: nothing but the calls that write, from the memory that a disk takes
# fastest, into a new file and into one that is there.
_RAW_HUGE, _RAW_AGAIN = "the same out of huge pages", "the same into the file that is there"
_REQUEST = 1 << 24
_SLOW = {"np.savez": 1 << 29, "h5py default": 1 << 29, "torch DCP": 1 << 29, "Orbax": 1 << 29}
Turn = tuple[Callable[[], None], Callable[[], None]]
CHANGED = "the same, only blocks that change"
NEW, ALL, TOLD = "jobrun, new file", "jobrun, recycled, all changed", "the same, told which"
_COLD, _LAZY = "jobrun, into arrays that are there, cold", "jobrun, lazy open"
_HOT = "jobrun, into arrays that are there, hot"
_NEW_COLD, _NEW_HOT = "jobrun, all, verified, cold", "jobrun, all, verified, hot"
# What sets the floor for a load of all: the system clears new memory before anything is in it.
_RAW_NEW = "the same, into new arrays"
# And for one into arrays that are there: the index is read and parsed, since it says where to read
# to; then nothing but system calls that read all of the file, and digests of what they have read,
# by as many threads. The arrays are larger than the processor's cache, which the memory of the
# baseline is not.
_BARE_THERE = "bare calls, into arrays, and digests"
_BARE_NEW = "bare calls, into new arrays, and digests"
_TORCH, _MODULE = "torch.load, load_state_dict, unverified", "jobrun, verified, bits compared"
# And for one of a module: its memory is read into and digested as above, and digested once more,
# by one thread, when the module has taken it, since its class may have changed it.
_BARE_MODULE = "bare calls, into tensors, digests twice"
# Of 16 MiB each.
_LEAST_PARTS = 10
# At most this much of the baseline; for many small blobs the second.
_MOST = {
    NEW: (1.0, 1.3), ALL: (0.75, 1.3), _COLD: (1.1, 1.5), _HOT: (1.3, 3.0),
}  # fmt: skip
# Of the same read into new arrays.
_MOST_NEW = {_NEW_COLD: (1.1, 1.5), _NEW_HOT: (1.3, 3.0)}
# At least so many times as long as ``NEW``; for many small blobs the second.
_LEAST = {
    "torch.save": (2, 15), "np.savez": (3, 20), "safetensors": (1.3, 2.5),
    "torch DCP": (4, 100), "Orbax": (8, 100),
}  # fmt: skip
_MANY = 1_000


def in_turns(variants: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each round but the first; what is first of the pair is free."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, (prepare, act) in variants.items():
            prepare()
            begun = time.perf_counter()
            act()
            if turn:
                times[name].append(time.perf_counter() - begun)
    return times


def show(
    title: str,
    times: Mapping[str, list[float]],
    baseline: str,
    aims: Mapping[str, float] = MappingProxyType({}),
    floors: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print medians, ratios to the baseline, what was aimed at, and variants that are floors."""
    print(f"\n{title}")
    for name, seconds in times.items():
        against = ratio(times, name, baseline)
        floor = f"   floor {ratio(times, floors[name], baseline):.2f} x" if name in floors else ""
        print(
            f"  {name:40} {statistics.median(seconds) * 1e3:10,.1f} ms"
            f"  {against:8.2f} x{verdict(against, aims.get(name))}{floor}"
        )


def ratio(times: Mapping[str, list[float]], name: str, baseline: str) -> float:
    """The median of the ratios within each turn."""
    pairs = zip(times[name], times[baseline], strict=True)
    return statistics.median(mine / base for mine, base in pairs)


def aims_of(values: Values) -> dict[str, float]:
    """What is aimed at, for the variants that have an aim of their own."""
    return {name: most[len(values) > _MANY] for name, most in _MOST.items()}


def compare(values: Values, times: Mapping[str, list[float]]) -> None:
    """Print how many times as long as a new file of jobrun's others take, and a tenth."""
    print("  compared with a new file of jobrun's")
    tenth = ratio(times, TOLD, NEW)
    floor = ratio(times, CHANGED, NEW)
    aim = f"{verdict(tenth, 0.15)}   floor {floor:.2f} x"
    print(f"    {'10 % changed, told which':38} {tenth:13.2f} x{aim}")
    for peer, least in _LEAST.items():
        if peer + " + fsync" in times:
            peer_ratio = ratio(times, peer + " + fsync", NEW)
            aim = verdict(peer_ratio, least=least[len(values) > _MANY])
            print(f"    {peer:38} {peer_ratio:13.1f} x{aim}")


class Raw:
    """Writing as many bytes in one go.

    Args:
        folder: Of the file.
        size: How many.
        pieces: Offset and length of each piece that is written; all of it if empty.
        huge: Out of huge pages, if the system has them: the best that the disk does.
    """

    def __init__(
        self, folder: Path, size: int, pieces: Sequence[tuple[int, int]] = (), *, huge: bool = False
    ) -> None:
        self._path = folder / "raw"
        self._size = (
            -(-max(size, *(sum(piece) for piece in pieces), 0) // mmap.PAGESIZE) * mmap.PAGESIZE
        )
        self._pieces = pieces or [(at, _REQUEST) for at in range(0, self._size, _REQUEST)]
        # Random data once, so that every page is there.
        self._memory = map_memory(self._size) if huge else mmap.mmap(-1, self._size)
        view = np.frombuffer(self._memory, np.uint8)
        view[...] = np.resize(
            np.random.default_rng(3).integers(0, 256, 1 << 20, np.uint8), view.size
        )

    def clean(self) -> None:
        """Remove the file, so that the next one is new."""
        self._path.unlink(missing_ok=True)

    def fill(self) -> None:
        """Make a file with all the bytes, so that pieces of it can be written over."""
        self._path.write_bytes(self._memory[: self._size])

    def write(self) -> None:
        flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_DIRECT", 0)
        descriptor = os.open(self._path, flags)
        view = memoryview(self._memory)
        for at, count in self._pieces:
            os.pwrite(descriptor, view[at : at + count], at)
        os.fsync(descriptor)
        os.close(descriptor)
        sync_directory(self._path.parent)


@contextmanager
def pieces_written() -> Iterator[list[tuple[int, int]]]:
    """Collect offset and length of each piece, rounded to pages, that saves write meanwhile."""
    written_pieces: list[tuple[int, int]] = []
    write = FileWriter.write

    def note(self: FileWriter, piece: Any, offset: int) -> None:
        written_pieces.append((offset, -(-piece.size // mmap.PAGESIZE) * mmap.PAGESIZE))
        write(self, piece, offset)

    FileWriter.write = note  # type: ignore[method-assign]
    try:
        yield written_pieces
    finally:
        FileWriter.write = write  # type: ignore[method-assign]


class Ours:
    """The writer of one node, as a run uses it.

    Args:
        folder: Made here.
        states: Saved in turn.
        recycles: Each file is the spare of the next one.
        rules: For compression.
        tells: The writer is told which arrays are those of the last save.
    """

    def __init__(
        self,
        folder: Path,
        states: list[Values],
        *,
        recycles: bool,
        rules: Any = (),
        tells: bool = False,
    ) -> None:
        folder.mkdir()
        self._path = folder / "n.h5"
        self._states = states
        self._turn = 0
        self._recycles = recycles
        self._writer = NodeWriter("n", rules)
        first, last = states[0], states[-1]
        self._same = {name for name in first if tells and first[name] is last[name]}

    def clean(self) -> None:
        if not self._recycles:
            self._path.unlink(missing_ok=True)

    def write(self) -> None:
        self._turn += 1
        self._writer.write(
            str(self._path),
            epoch=self._turn,
            run_id="bench",
            values=self._states[self._turn % len(self._states)],
            unchanged=self._same,
            over_removed=self._recycles,
        )
        sync_directory(self._path.parent)


def saves(name: str, values: Values, folder: Path) -> None:
    """Full saves, saves of a tenth, and other formats."""
    size = size_bytes(values)
    (folder / "again").mkdir()
    raw, again = Raw(folder, size), Raw(folder / "again", size, huge=True)
    huge = Raw(folder, size, huge=True)
    other = {key: value + np.asarray(1, value.dtype) for key, value in values.items()}
    part = changed_in_part(values, 0.1, 1)
    variants: dict[str, Turn] = {
        RAW: (raw.clean, raw.write),
        _RAW_HUGE: (huge.clean, huge.write),
        _RAW_AGAIN: (_nothing, again.write),
    }
    ours = {
        NEW: Ours(folder / "new", [values], recycles=False),
        ALL: Ours(folder / "all", [values, other], recycles=True),
        "jobrun, recycled, 10 % changed": Ours(folder / "part", [values, part], recycles=True),
        TOLD: Ours(folder / "told", [values, part], recycles=True, tells=True),
    }
    if name.startswith("D"):
        ours["jobrun, deflate"] = Ours(
            folder / "deflate", [values], recycles=False, rules=(("*", "deflate"),)
        )
    # What may have changed is digested, block by block, and as many pieces are written as lie
    # between blocks that hold no change: no save is quicker.
    for _ in range(2):
        ours[TOLD].clean()
        with pieces_written() as pieces:
            ours[TOLD].write()
    (folder / "changed").mkdir()
    changed = Raw(folder / "changed", size, pieces, huge=True)
    changed.fill()
    altered = _in_blocks([value for key, value in part.items() if value is not values[key]])

    def write_changed() -> None:
        for pieces in altered:
            _digest(pieces)
        changed.write()

    variants[CHANGED] = (_nothing, write_changed)
    variants |= {key: (variant.clean, variant.write) for key, variant in ours.items()}
    for peer, save in peers.installed().items():
        if size_bytes(values) > _SLOW.get(peer, 1 << 40) or (
            len(values) > 1000 and SCALE < 1 and peer in _SLOW
        ):
            continue
        peer_folder = folder / peer.replace(" ", "_")
        peer_folder.mkdir()
        variants[peer + " + fsync"] = _peer(peers.durable(save), peer_folder, values)
    title = f"save {name} x {SCALE:g}: {size >> 20} MiB"
    times = in_turns(variants, ROUNDS)
    show(title, times, RAW, aims_of(values), {NEW: _RAW_HUGE, ALL: _RAW_AGAIN})
    compare(values, times)


def loads(name: str, values: Values, folder: Path) -> None:
    """Verified loads of a file that is not in memory, and looking into it."""
    path = folder / "n.h5"
    NodeWriter("n").write(str(path), epoch=1, run_id="bench", values=values)
    arrays = {key: np.empty_like(value) for key, value in values.items()}
    memory = bytearray(_REQUEST)

    def forget() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    def read() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        while os.readv(descriptor, [memory]):
            pass
        os.close(descriptor)

    def read_new() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        new_arrays = [np.empty_like(value) for value in values.values()]
        for array in new_arrays:
            os.readv(descriptor, [array.view(np.uint8)])
        os.close(descriptor)

    # All is verified, also what is between the arrays. Each is read from where it is in the file:
    # a small one is often on two pages of the cache, which are copied one by one.
    sizes = sizes_in(path)
    cuts = _cut(sizes)
    gaps = {key: np.empty(size, np.uint8) for key, size in sizes.items() if isinstance(key, int)}
    blocks = _pieces(cuts, {**arrays, **gaps})

    def read_there_digested() -> None:
        read_index(path)
        read_digested(path, blocks, userblock.SIZE)

    def read_new_digested() -> None:
        read_index(path)
        new_arrays = {key: np.empty_like(value) for key, value in values.items()}
        read_digested(path, _pieces(cuts, {**new_arrays, **gaps}), userblock.SIZE)

    def whole(into: Any = None) -> None:
        with open_state(str(path)) as file:
            load(file, into=into)

    def look() -> None:
        with open_state(str(path)) as file:
            len(file.index.names)

    variants: dict[str, Turn] = {
        "raw cold read": (forget, read),
        _RAW_NEW: (forget, read_new),
        _BARE_THERE: (forget, read_there_digested),
        _BARE_NEW: (forget, read_new_digested),
        _NEW_COLD: (forget, whole),
        _COLD: (forget, lambda: whole(arrays)),
        _LAZY: (forget, look),
    }
    cold = in_turns(variants, ROUNDS)
    title = f"load {name} x {SCALE:g}, cold"
    show(title, cold, "raw cold read", aims_of(values), {_COLD: _BARE_THERE})
    compare_new(values, cold, _NEW_COLD)
    variants = {
        "raw read of the page cache": (_nothing, read),
        _RAW_NEW: (_nothing, read_new),
        _BARE_THERE: (_nothing, read_there_digested),
        _BARE_NEW: (_nothing, read_new_digested),
        _NEW_HOT: (_nothing, whole),
        _HOT: (_nothing, lambda: whole(arrays)),
        _LAZY: (_nothing, look),
    }
    # A few milliseconds each, which anything else on the machine disturbs.
    hot = in_turns(variants, 4 * ROUNDS)
    title = f"load {name} x {SCALE:g}, hot"
    show(title, hot, "raw read of the page cache", aims_of(values), {_HOT: _BARE_THERE})
    compare_new(values, hot, _NEW_HOT)


def read_index(path: Path) -> None:
    """Read and parse what says where the blobs of a file are, with digests, by bare calls."""
    descriptor = os.open(path, os.O_RDONLY)
    block = os.pread(descriptor, userblock.SIZE, 0)
    hashlib.sha256(block).digest()
    parts = json.loads(block[len(userblock.MAGIC) : block.index(b"\0")])["parts"]
    tail = os.pread(descriptor, os.fstat(descriptor).st_size - parts["tail"], parts["tail"])
    hashlib.sha256(tail).digest()
    begin, end = index_span(Parts(**parts))
    data = os.pread(descriptor, end - begin, begin)
    xxhash.xxh3_128_digest(data)
    layout, table = parts["layout_bytes"], parts["blobs"] * BLOBS_TYPE.itemsize
    for _, dtype, shape, *_ in json.loads(data[:layout])["types"]:
        np.dtype(dtype), tuple(shape)
    names = data[layout:-table].strip(b"\0").decode().split("\n")
    dict(zip(names, np.frombuffer(data[-table:], BLOBS_TYPE)["offset"].tolist(), strict=True))
    os.close(descriptor)


def read_digested(path: Path, blocks: list[list[Any]], begin: int = 0) -> None:
    """Read a file into the arrays of its blocks, and digest each, by as many threads as a load."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    starts = iter(range(0, len(blocks), TOGETHER))

    def work() -> None:
        for first in starts:
            some = blocks[first : first + TOGETHER]
            at = begin + first * BLOCK_BYTES
            os.preadv(descriptor, [array for block in some for array in block], at)
            for block in some:
                state = xxhash.xxh3_128()
                deque(map(state.update, block), 0)
                state.digest()

    threads = [Thread(target=work) for _ in range(min(MOST_THREADS, usable_cpus()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)


def compare_new(values: Values, times: Mapping[str, list[float]], name: str) -> None:
    """Print a verified load of all against an unverified read into new arrays of the same sizes."""
    new_ratio = ratio(times, name, _RAW_NEW)
    most = _MOST_NEW[name][len(values) > _MANY]
    floor = ratio(times, _BARE_NEW, _RAW_NEW)
    row = f"    {name + ', of that into new arrays':52} {new_ratio:9.2f} x"
    print(f"{row}{verdict(new_ratio, most)}   floor {floor:.2f} x")


def sizes_in(path: Path) -> dict[str | int, int]:
    """Bytes of blobs, and of numbered gaps between them, in the order of a file."""
    with open_state(str(path)) as file:
        spans = sorted((*file.index.span(row), name) for name, row in file.index.rows.items())
        end = file.size_bytes
    sizes: dict[str | int, int] = {}
    at = userblock.SIZE
    for begin, last, name in spans:
        sizes[len(sizes)] = begin - at
        sizes[name] = last - begin
        at = last
    return sizes | {len(sizes): end - at}


def _cut(sizes: Mapping[str | int, int]) -> list[list[tuple[str | int, slice | None]]]:
    """Cut arrays in their order into blocks: which ones, and which bytes, or None for all."""
    blocks: list[list[tuple[str | int, slice | None]]] = [[]]
    room = BLOCK_BYTES
    for key, size in sizes.items():
        at = 0
        while at < size:
            count = min(room, size - at)
            part = None if count == size else slice(at, at + count)
            blocks[-1].append((key, part))
            at, room = at + count, room - count
            if not room:
                blocks.append([])
                room = BLOCK_BYTES
    return blocks if blocks[-1] else blocks[:-1]


def _pieces(
    cuts: list[list[tuple[str | int, slice | None]]], arrays: Mapping[str | int, Any]
) -> list[list[Any]]:
    return [
        [arrays[key] if part is None else arrays[key].view(np.uint8)[part] for key, part in block]
        for block in cuts
    ]


def _digest(pieces: list[Any]) -> None:
    state = xxhash.xxh3_128()
    for piece in pieces:
        state.update(piece)
    state.digest()


def _in_blocks(arrays: list[Any]) -> list[list[Any]]:
    """Cut the memory of arrays, one after the other, into groups of the size of a block."""
    groups: list[list[Any]] = [[]]
    room = BLOCK_BYTES
    for array in arrays:
        uncut = array.view(np.uint8)
        while uncut.size:
            groups[-1].append(uncut[:room])
            uncut, room = uncut[room:], room - min(room, uncut.size)
            if not room:
                groups.append([])
                room = BLOCK_BYTES
    return groups


def modules(folder: Path) -> None:
    """A verified load into a module of PyTorch, against ``torch.load`` and ``load_state_dict``.

    Of 160 MiB at least, which those take in 80 ms where they get new memory for it.
    """
    import torch  # noqa: PLC0415

    parts = max(_LEAST_PARTS, int(16 * SCALE))
    net = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(parts)))
    path, plain = folder / "net.h5", folder / "net.pt"
    values = flatten_values({"net": capture_object("net", net)})
    NodeWriter("n").write(str(path), epoch=1, run_id="bench", values=values)
    torch.save(net.state_dict(), plain)

    def unverified() -> None:
        net.load_state_dict(torch.load(plain))

    def ours() -> None:
        in_place = InPlace({"net": capture_object("net", net)})
        with open_state(str(path)) as file:
            state = in_place.load(file, ["net"])["net"]
        load_object_state("net", net, state, in_place)

    blocks = _in_blocks([tensor.numpy() for tensor in net.state_dict().values()])

    def bare() -> None:
        read_index(path)
        read_digested(path, blocks)
        deque(map(_digest, blocks), 0)

    variants: dict[str, Turn] = {
        _TORCH: (_rest, unverified), _MODULE: (_rest, ours), _BARE_MODULE: (_rest, bare),
    }  # fmt: skip
    times = in_turns(variants, 4 * ROUNDS)
    title = f"load a module of {path.stat().st_size >> 20} MiB, page cache"
    show(title, times, _TORCH, {_MODULE: 1.3}, {_MODULE: _BARE_MODULE})


def first_save(values: Values) -> None:
    """What a layout costs once."""
    times = {"metadata of a new layout": [], "of a layout that is known": []}  # type: ignore[var-annotated]
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        program, _ = build_encoder(values)
        times["metadata of a new layout"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        program.arrays(values)
        times["of a layout that is known"].append(time.perf_counter() - begun)
    show("first save", times, "metadata of a new layout")


def memory_of_a_save(values: Values, folder: Path) -> None:
    """How much the process grows by saving."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    NodeWriter("n").write(str(folder / "memory.h5"), epoch=1, run_id="bench", values=values)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"\nmemory of a save: the process grew by {grown / 1024:.0f} MiB   (bound: 64 MiB)")


def _peer(save: peers.Save, folder: Path, values: Values) -> Turn:
    return (lambda: peers.empty(folder)), (lambda: save(folder, values))


def _rest() -> None:
    """Wait until PyTorch's threads sleep: they look for more work for a while, on both cores."""
    time.sleep(0.01)


def _nothing() -> None:
    pass


def main(wanted: list[str]) -> None:
    """Print the tables of the cases whose letters are given, M for modules; of all by default."""
    for name, make in CASES.items():
        if wanted and name[0] not in wanted:
            continue
        values = make()
        with tempfile.TemporaryDirectory() as folder:
            work_directory = Path(folder)
            if name.startswith("A"):
                memory_of_a_save(values, work_directory)
            saves(name, values, work_directory)
            loads(name, values, work_directory)
        if name.startswith("B"):
            first_save(values)
    if util.find_spec("torch") and (not wanted or "M" in wanted):
        with tempfile.TemporaryDirectory() as folder:
            modules(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
