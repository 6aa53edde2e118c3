"""The states that checkpoint benchmarks save: few large, many small, compressible, mixed.

``JOBRUN_BENCH_SCALE`` multiplies their sizes: 1 takes minutes, the default less than one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SCALE = float(os.environ.get("JOBRUN_BENCH_SCALE", "0.125"))
Values = Mapping[str, Any]


def few_large() -> Values:
    """4 x 64 MiB of float32."""
    return {f"w{n}": _noise(int((16 << 20) * SCALE)) for n in range(4)}


def many_small() -> Values:
    """10,000 x 4 KiB: always so many, since their number is what costs."""
    return {f"blob{n:05d}": _noise(1024) for n in range(10_000)}


def one_gib() -> Values:
    """8 x 128 MiB of float32."""
    return {f"w{n}": _noise(int((32 << 20) * SCALE)) for n in range(8)}


def compressible() -> Values:
    """512 MiB of a random walk in int64."""
    steps = np.random.default_rng(7).integers(-3, 4, int((64 << 20) * SCALE))
    return {"walk": np.cumsum(steps)}


def mixed() -> Values:
    """300 tensors of float32, float16 and int64, 500 MiB in all, most of them small."""
    rng = np.random.default_rng(7)
    shares = rng.pareto(1.0, 300) + 0.05
    sizes = (shares / shares.sum() * 500 * (1 << 20) * SCALE).astype(int)
    dtypes = [np.float32, np.float32, np.float16, np.int64]
    arrays: dict[str, Any] = {}
    for number, size in enumerate(sizes):
        dtype = dtypes[number % 4]
        count = max(1, int(size) // np.dtype(dtype).itemsize)
        arrays[f"layer{number:03d}"] = _noise(count).astype(dtype)
    return arrays


CASES: dict[str, Callable[[], Values]] = {
    "A 4 x 64 MiB": few_large,
    "B 10,000 x 4 KiB": many_small,
    "C 1 GiB": one_gib,
    "D 512 MiB compressible": compressible,
    "E 300 tensors, 500 MiB": mixed,
}


def size_bytes(values: Values) -> int:
    """Of all data together."""
    return sum(value.nbytes for value in values.values())


def changed_in_part(values: Values, part: float, turn: int) -> Values:
    """The same values, but for about so much of their bytes, which are in new arrays."""
    names = list(values)
    unchanged_bytes = int(part * size_bytes(values))
    changed = dict(values)
    for index in np.random.default_rng(turn).permutation(len(names)).tolist():
        value = values[names[index]]
        count = min(value.size, unchanged_bytes // value.itemsize)
        if count and (count == value.size or len(names) < 100):
            # Of few large ones a piece of one.
            changed[names[index]] = value.copy()
            changed[names[index]][:count] += np.asarray(turn, value.dtype)
            unchanged_bytes -= count * value.itemsize
    return changed


def _noise(count: int) -> Any:
    return np.random.default_rng(count).random(count, dtype=np.float32)
