"""Draw sets of blobs of all kinds together, and what becomes of them in the next epoch.

Sizes are about the limits of gathering, blocks, pages and compression; names are in any order.
"""

from __future__ import annotations

import random
import string
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib import util
from typing import Any

import ml_dtypes
import numpy as np

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.hdf5.file_layout import ALIGNMENT, PAGE, PAGED_BYTES
from jobrun.values.kinds.counter import Counter

Array = np.ndarray[Any, Any]
_RECORD = np.dtype(
    {
        "names": ["when", "name", "x", "in"],
        "formats": ["<M8[s]", ("<U3", (2,)), ">f4", [("g", np.longdouble), ("n", "<i2")]],
        "offsets": [8, 24, 0, 64],
        "itemsize": 112,
    }
)
_DTYPES = [
    np.dtype(text)
    for text in (
        "f8", "f8", "f8", "f4", "f2", ">f8", ">f4", "i8", "i8", ">i8", "i4", "u2", "i1", "u8", "q",
        "?", "c8", "c16", ">c16", "g", "G", "M8[s]", "M8[D]", "M8[ns]", ">M8[s]", "m8[ms]",
        "m8[25us]", "U1", "U2", "U4", ">U2", "S1", "S8", "S16", "V8", "V3",
    )
] + [
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype("i8", metadata={"enum": {"RED": 0, "GREEN": 1}}),
    np.dtype("f8", metadata={"unit": "m"}),
    np.dtype("f8", metadata={"unit": "km"}),
    np.dtype([("x", np.dtype("f8", metadata={"unit": "m"})), ("n", "<i4")]),
    np.dtype([("r", "<f8"), ("i", "<f8")]),
    np.dtype([("n", "<i2"), ("x", "<f8")], align=True),
    np.dtype((np.record, [("a", "i4"), ("b", "f8")])),
    np.dtype([(("a title", "a"), "<i4"), ("b", "S4")]),
    _RECORD,
]  # fmt: skip
_LIMITS = (ALIGNMENT, 1 << 10, PAGE, PAGED_BYTES, BLOCK_BYTES, 1 << 20)
_LETTERS = string.ascii_letters + "/%. _~ü\n"
Draw = Callable[[random.Random], Any]


def draw_blobs(rng: random.Random, most: int = 60) -> dict[str, Any]:
    """A set of blobs of 1 to ``most`` names, a few of them large."""
    names = {_name(rng) for _ in range(rng.randint(1, most))}
    alike = _alike(rng)
    shuffled = rng.sample(sorted(names), len(names))
    return {name: _value(rng, alike) for name in shuffled}


def next_blobs(rng: random.Random, blobs: Mapping[str, Any]) -> dict[str, Any]:
    """The set in the next epoch: some changed in place, some of another value, kind or shape."""
    alike = _alike(rng)
    following = dict(blobs)
    changes = rng.random() < 0.4
    for name, value in blobs.items():
        fate = rng.random()
        if fate < 0.5:
            following[name] = _other_value(rng, value)
        elif fate < 0.6 and changes:
            following[name] = _value(rng, alike)
    if changes and rng.random() < 0.3:
        following[_name(rng)] = _value(rng, alike)
    return following


def draw_value(rng: random.Random) -> Any:
    """A value of any kind; half of the arrays are small ones of 16 bytes."""
    return _value(rng, (_DTYPES[0], (2,)))


def change_in_place(rng: random.Random, values: Sequence[Any]) -> None:
    """Give some of the arrays other items, where they are."""
    for value in values:
        if type(value) is np.ndarray and value.size and rng.random() < 0.6:
            value[...] = _filled(rng, value.dtype, value.shape)


def draw_array(
    rng: random.Random, dtype: np.dtype[Any] | None = None, shape: tuple[int, ...] | None = None
) -> Array:
    """An array of any bits, with any dtype, shape, order of axes, and gaps."""
    dtype = rng.choice(_DTYPES) if dtype is None else dtype
    shape = _shape(rng, dtype.itemsize) if shape is None else shape
    array = _filled(rng, dtype, shape)
    layout = rng.random()
    if layout < 0.1:
        return np.asfortranarray(array)
    if layout < 0.15 and array.ndim > 1:
        return array.transpose(rng.sample(range(array.ndim), array.ndim))
    if layout < 0.2 and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    return array


def _alike(rng: random.Random) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype and shape of many small arrays of a set; those of one dtype are gathered.

    Others of its size are between them.
    """
    return rng.choice(_DTYPES[:4]), rng.choice([(2,), (4,), (8,), (2, 2), (1,)])


def _value(rng: random.Random, alike: tuple[np.dtype[Any], tuple[int, ...]]) -> Any:
    fate = rng.random()
    if fate < 0.4:
        dtype, shape = alike
        if rng.random() < 0.5:
            dtype = rng.choice([other for other in _DTYPES if other.itemsize == dtype.itemsize])
        return draw_array(rng, dtype, shape)
    if fate < 0.65:
        return draw_array(rng)
    if fate < 0.85:
        return rng.choice(_SCALARS)(rng)
    return rng.choice(_CONTAINERS)(rng)


def _other_value(rng: random.Random, value: Any) -> Any:
    """Another value of the same form, where that is an array; else of any."""
    if type(value) is np.ndarray and value.size:
        changed = value if rng.random() < 0.3 else value.copy(order="K")
        if rng.random() < 0.5:
            changed[...] = _filled(rng, value.dtype, value.shape)
        else:
            changed.reshape(-1, order="A")[-1:] = _filled(rng, value.dtype, (1,))
        return changed
    if isinstance(value, str):
        return value[::-1]
    if type(value) in (int, float, complex):
        return value + 1
    return value


def _filled(rng: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.names:
        array = np.zeros(count, dtype)
        for name in dtype.names:
            field = array[name]
            field[...] = _filled(rng, field.dtype, field.shape)
        return array.reshape(shape)
    if dtype.kind == "U":
        texts = [
            "".join(rng.choices("aü€𝄞\0", k=dtype.itemsize // 4)) for _ in range(min(count, 64))
        ]
        return np.resize(np.array(texts or [""], dtype), shape)
    if dtype.kind == "b":
        return np.frombuffer(rng.randbytes(count), np.uint8).reshape(shape) % 2 == 1
    repeats = rng.random() < 0.3
    width = dtype.itemsize * (min(count, 100) if repeats else count)
    data = np.frombuffer(rng.randbytes(width), np.uint8)
    if dtype.type in (np.longdouble, np.clongdouble):
        numbers = np.frombuffer(data, np.int8).astype("f8").astype(dtype)
        return np.resize(numbers, count).reshape(shape)
    # Not a number at all, with any payload, among them.
    array = np.resize(data, count * dtype.itemsize).view(dtype).reshape(shape).copy()
    if dtype.kind == "f" and array.size and dtype.isbuiltin == 1:
        array.reshape(-1)[0] = -0.0
    return array


def _shape(rng: random.Random, itemsize: int) -> tuple[int, ...]:
    fate = rng.random()
    if fate < 0.1:
        return ()
    if fate < 0.2:
        return rng.choice([(0,), (0, 3), (2, 0)])
    if fate < 0.32:
        near = rng.choice(_LIMITS) // itemsize + rng.choice([-1, 0, 0, 1])
        return (max(1, near),)
    return tuple(rng.choice([1, 1, 2, 3, 4, 7]) for _ in range(rng.randint(1, 3)))


def _name(rng: random.Random) -> str:
    name = "".join(rng.choices(_LETTERS, k=rng.choice([1, 2, 3, 8])))
    return name if name.strip("./\n ") else f"x{name}"


def _text(rng: random.Random) -> str:
    length = rng.choice([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 300, 5000])
    return "".join(rng.choices("abcü€𝄞\0\ud834\udd1e", k=length))


def draw_large_tree(rng: random.Random) -> Any:
    """A tree of dozens to hundreds of small values, some in it twice."""
    shared = [rng.choice(_SCALARS)(rng), {"x": rng.random()}]
    draws: list[Draw] = [
        *_SCALARS,
        lambda _: shared,
        lambda rng: rng.choice([1, 1.0, True, "1", None, float("nan"), -0.0, b"1", ""]),
        lambda rng: [rng.random() for _ in range(rng.choice([1, 2, 31, 32, 33]))],
        lambda rng: tuple(rng.choices([0, 1, 2**63 - 1, 2**63, -(2**63) - 1], k=3)),
    ]
    return {
        rng.choice([str(at), at, f"{at}/", f"{at}~2", at + 0.5]): {
            key: rng.choice(draws)(rng) for key in rng.sample(["a", "1", 1, "text", "of", "é"], 4)
        }
        for at in range(rng.randint(10, 60))
    }


_SCALARS: list[Draw] = [
    _text,
    _text,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice([0, -1, 2**63 - 1, 2**63, -(7**900)]),
    lambda rng: rng.choice([0.1, -0.0, float("inf"), 5e-324, rng.random()]),
    lambda rng: complex(-0.0, rng.random()),
    lambda rng: Counter(rng.randint(-(2**70), 2**70)),
    lambda rng: draw_array(rng, None, (1,))[0],
    lambda rng: np.str_(_text(rng)[:9]),
    lambda rng: np.bytes_(rng.randbytes(rng.randint(0, 9)) + b"\0"),
]
_CONTAINERS: list[Draw] = [
    lambda rng: [draw_array(rng) for _ in range(rng.randint(0, 4))],
    lambda rng: {_text(rng)[:5]: rng.choice(_SCALARS)(rng) for _ in range(rng.randint(0, 5))},
    lambda rng: {_name(rng): {"in": [draw_array(rng)]}, 3: (None, b"\0ab", rng.random())},
    lambda rng: [rng.random() for _ in range(rng.randint(2, 9))],
    lambda rng: tuple(range(rng.randint(0, 9))),
    lambda rng: OrderedDict([("z", 1), ("a", draw_array(rng))]),
    lambda rng: rng.randbytes(rng.choice([0, 1, 100])),
    lambda rng: None,
    lambda rng: [{1.5: _text(rng)}, set(range(rng.randint(0, 4))), Decimal(rng.randint(0, 99))],
    lambda rng: deque([rng.random(), draw_array(rng)], maxlen=4),
    lambda rng: [shared := draw_array(rng), shared],
    draw_large_tree,
]
if util.find_spec("torch"):

    def _tensor(rng: random.Random) -> Any:
        import torch  # noqa: PLC0415 - it is optional, and takes a second

        tensor = torch.tensor(rng.choices(range(9), k=rng.randint(0, 20)))
        dtypes = (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool)
        return tensor.to(rng.choice(dtypes))

    TENSORS: list[Draw] = [_tensor]
else:
    TENSORS = []
