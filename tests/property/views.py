"""Ways from an array of one shape to one of another, most of which share its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Shape -> where it comes from, how that is written, and how it is done.
VIEWS: dict[tuple[int, ...], list[tuple[tuple[int, ...], str, Callable[..., Any]]]] = {
    (3,): [
        ((2, 3), "{}[0]", lambda a: a[0]),
        ((2, 3), "{}[-1]", lambda a: a[-1]),
        ((3, 2), "{}[:, 1]", lambda a: a[:, 1]),
        ((3, 2), "{}.T[0]", lambda a: a.T[0]),
        ((6,), "{}[:3]", lambda a: a[:3]),
        ((6,), "{}[::2]", lambda a: a[::2]),
        ((6,), "{}[::-1][1:4]", lambda a: a[::-1][1:4]),
        ((6,), "{}[[0, 2, 2]]", lambda a: a[[0, 2, 2]]),
        ((3,), "{}[::-1]", lambda a: a[::-1]),
        ((3,), "{}[...]", lambda a: a[...]),
        ((3,), "roll({}, 1)", lambda a: np.roll(a, 1)),
    ],
    (2, 3): [
        ((3, 2), "{}.T", lambda a: a.T),
        ((3, 2), "transpose({})", np.transpose),
        ((6,), "reshape({}, (2, 3))", lambda a: np.reshape(a, (2, 3))),
        ((2, 3), "{}[::-1]", lambda a: a[::-1]),
        ((2, 3), "flip({}, axis=1)", lambda a: np.flip(a, axis=1)),
        ((2, 3), "{}[:, :]", lambda a: a[:, :]),
        ((3,), "broadcast_to({}, (2, 3))", lambda a: np.broadcast_to(a, (2, 3))),
        ((3,), "stack([{}, {}])", lambda a, b: np.stack([a, b])),
    ],
    (3, 2): [
        ((2, 3), "{}.T", lambda a: a.T),
        ((2, 3), "swapaxes({}, 0, 1)", lambda a: np.swapaxes(a, 0, 1)),
        ((6,), "reshape({}, (-1, 2))", lambda a: np.reshape(a, (-1, 2))),
        ((3, 2), "{}[::-1, ::-1]", lambda a: a[::-1, ::-1]),
    ],
    (6,): [
        ((2, 3), "ravel({})", np.ravel),
        ((2, 3), "reshape({}, -1)", lambda a: np.reshape(a, -1)),
        ((3, 2), "ravel({}.T)", lambda a: np.ravel(a.T)),
        ((6,), "{}[::-1]", lambda a: a[::-1]),
        ((3,), "concatenate([{}, {}])", lambda a, b: np.concatenate([a, b])),
    ],
    (): [
        ((3,), "reshape({}[1:2], ())", lambda a: np.reshape(a[1:2], ())),
        ((), "{}[...]", lambda a: a[...]),
        ((), "{}.T", lambda a: a.T),
    ],
}

# What an array of any shape is seen as, with its type unchanged.
SELVES: list[tuple[str, Callable[..., Any]]] = [
    ("{}[...]", lambda a: a[...]),
    ("{}.T.T", lambda a: a.T.T),
    ("real({})", np.real),
    ("reshape({0}, {0}.shape)", lambda a: np.reshape(a, a.shape)),
    ("transpose(transpose({}))", lambda a: a.T.T),
]
