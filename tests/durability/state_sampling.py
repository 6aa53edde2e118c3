"""Which states of a disk to look at: after each call the telling ones, and some at random."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.durability.disk import Crash, Disk, Model

_HOW: dict[Model, tuple[str, ...]] = {
    "weak": ("none", "all", "empty", "stale", "first", "cut", "sectors"),
    "ordered": ("none", "all", "first"),
}
# Nobody relies on these; they are lost, or torn, together.
_ADVISORY = ("events.jsonl", "metrics.jsonl", "job.log", "run.lock")


def telling(disk: Disk, model: Model) -> Iterator[Crash]:
    """The corners: all and nothing, each pending thing alone, and each lost alone."""
    everything = frozenset(range(len(disk.pending)))
    files = disk.unsynced()
    hows = ("none", "all") if model == "ordered" else ("none", "all", "empty")
    for loss in hows:
        losses = tuple((number, loss) for number in files)
        yield Crash(everything, losses)
        yield Crash(frozenset(), losses)
        for number in everything:
            yield Crash(disk.closed({number}), losses)
            yield Crash(disk.without(number), losses)
    for number in files:
        if disk.inodes[number].name not in _ADVISORY:
            for loss in hows:
                yield Crash(everything, ((number, loss),))


def sampled(disk: Disk, model: Model, chosen: random.Random, count: int) -> Iterator[Crash]:
    """Some states, each of a random part of all that may be there or not."""
    for _ in range(count):
        share = chosen.choice((0.2, 0.5, 0.8))
        names = {number for number in range(len(disk.pending)) if chosen.random() < share}
        advisory = chosen.choice(_HOW[model])
        files = []
        for number in disk.unsynced():
            is_advisory = disk.inodes[number].name in _ADVISORY
            loss = advisory if is_advisory else chosen.choice(_HOW[model])
            if loss == "first":
                loss = f"first:{chosen.randrange(len(disk.inodes[number].pending) + 1)}"
            elif loss in {"cut", "sectors"}:
                loss = f"{loss}:{chosen.randrange(8)}"
            files.append((number, loss))
        yield Crash(disk.closed(names), tuple(files))


def signature(disk: Disk, crash: Crash) -> int:
    """Equal for states that hold the same names and the same bytes."""
    return hash(
        tuple(
            (
                path,
                disk.inodes[number].target
                or ("" if path.endswith("/") else disk.content(number, loss)),
            )
            for path, number, loss in disk.files(crash)
        )
    )
