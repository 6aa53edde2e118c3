"""Random streams: which one a place has. A pure function of names; nothing is spawned or stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class StreamKey:
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
    place: str


def spawn_key(key: StreamKey) -> tuple[int, ...]:
    """Eight 32-bit words that stand for the key, from its SHA-256.

    ``SeedSequence.spawn`` would not do: it counts its calls, and the count is not part of
    the generator's state, so a resumed run would draw other numbers.
    """
    # JSON keeps the fields apart whatever their names hold.
    text = json.dumps(
        [key.group, key.epoch, key.node, key.task, key.instance, key.place], ensure_ascii=True
    )
    digest = hashlib.sha256(text.encode()).digest()
    return tuple(int.from_bytes(digest[at : at + 4], "big") for at in range(0, 32, 4))


def stream(seed: int, key: StreamKey) -> np.random.Generator:
    """A new generator at the start of the place's stream.

    Args:
        seed: The job's, 0 or more, of any size.
        key: Where it is drawn.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key(key))
    return np.random.Generator(np.random.PCG64DXSM(sequence))
