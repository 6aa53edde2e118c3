"""Whether what is declared to be the same on all nodes is: the first difference, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobrun.blobs.objects import ObjectState
from jobrun.blobs.values import Value, describe, same_bits
from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.parts import differing
from jobrun.checkpoint.store import Manifest

_MOST_CHARACTERS = 40


def first_difference(name: str, files: Sequence[tuple[str, str, str]], manifest: Manifest) -> str:
    """How the first node that has another value differs from the first of all; empty if none does.

    Two values at a time are in memory.

    Args:
        name: Of the blob.
        files: Node, path and digest of each file that holds it.
        manifest: Of the epoch.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    first: Value = None
    for place, (node, path, digest) in enumerate(files):
        value = read_state(
            path, node=node, epoch=manifest.epoch, run_id=manifest.run_id, digest=digest,
            names=[name],
        )[name]  # fmt: skip
        if place == 0:
            first = value
        elif told := difference(first, value):
            return told.format(first=files[0][0], second=node)
    return ""


def difference(first: Value, second: Value) -> str:
    """Where two values differ, as a text with ``{first}`` and ``{second}``; empty if nowhere."""
    if isinstance(first, ObjectState) and isinstance(second, ObjectState):
        told = differing(first, second)
        return f"{{second}} differs from {{first}}: {_plain(told)}" if told else ""
    if same_bits(first, second):
        return ""
    if describe(first) != describe(second):
        return f"{_plain(describe(first))} on {{first}}, {_plain(describe(second))} on {{second}}"
    if isinstance(first, np.ndarray) and first.size:
        return _first_element(first, second)
    return f"{_shown(first)} on {{first}}, {_shown(second)} on {{second}}"


def _first_element(first: Value, second: Value) -> str:
    for place in np.ndindex(first.shape):
        one, other = first[place], second[place]
        if not same_bits(np.asarray(one), np.asarray(other)):
            at = ", ".join(map(str, place))
            return f"[{at}] is {_shown(one)} on {{first}}, {_shown(other)} on {{second}}"
    return "{first} and {second} have other bits"


def _shown(value: Value) -> str:
    text = value.item() if isinstance(value, np.generic) else value
    return _plain(repr(text)[:_MOST_CHARACTERS])


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
