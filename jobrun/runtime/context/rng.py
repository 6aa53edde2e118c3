"""Derive random streams from the names of steps: a pure function, without stored state."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from msgspec import Struct


class StreamKey(Struct, frozen=True):
    """What a stream depends on besides the seed. Never on time, threads or history.

    Attributes:
        group: ``init``, ``epoch``, …
        epoch: 0 in init, then 1, …
        node: The node's full name.
        task: The task's name; empty for what belongs to the whole node.
        instance: 0 unless the task has several instances.
        place: Path of the block that draws: task body, setup block, report, branch.
    """

    group: str
    epoch: int
    node: str
    task: str
    instance: int
    block_path: str


def spawn_key(key: StreamKey) -> tuple[int, ...]:
    """Return the 32-bit words that identify a random stream: the SHA-256 digest of its key.

    ``SeedSequence.spawn`` would not do: it counts its calls, and the count is not part of
    the generator's state, so a resumed run would draw other numbers.
    """
    # JSON keeps the fields apart whatever their names hold.
    text = json.dumps(
        [key.group, key.epoch, key.node, key.task, key.instance, key.block_path], ensure_ascii=True
    )
    digest = hashlib.sha256(text.encode()).digest()
    return tuple(int.from_bytes(digest[at : at + 4], "big") for at in range(0, 32, 4))


def make_stream(seed: int, key: StreamKey) -> np.random.Generator:
    """Create the random generator (rng) for a job's seed and a key: epoch, node, task and so on.

    Args:
        seed: The job's, 0 or more, of any size.
        key: Where it is drawn.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key(key))
    return np.random.Generator(np.random.PCG64DXSM(sequence))
