"""Stencils, and the numpy a person would write for each: cases of ``bench_nets``. Runs nothing.

Each takes parts of its arrays under names of their own, steps them in place, and reads them again.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.benchmarks.nets import Blobs, Case

# Of each stencil so many that what an epoch costs by itself does not count.
_PASSES, _MORE = 20, 100


def _gray_scott(b: Blobs, passes: int = _PASSES) -> None:
    U, V = b["U"], b["V"]  # noqa: N806
    for _ in range(passes):
        u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
        spread_u = U[:-2, 1:-1] + U[1:-1, :-2] - 4 * u + U[1:-1, 2:] + U[2:, 1:-1]
        spread_v = V[:-2, 1:-1] + V[1:-1, :-2] - 4 * v + V[1:-1, 2:] + V[2:, 1:-1]
        uvv = u * v * v
        U[1:-1, 1:-1] += 0.16 * spread_u - uvv + 0.035 * (1 - u)
        V[1:-1, 1:-1] += 0.08 * spread_v + uvv - 0.1 * v


_GRAY_SCOTT = (
    "u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]",
    "Lu = U[:-2, 1:-1] + U[1:-1, :-2] - 4 * u + U[1:-1, 2:] + U[2:, 1:-1]",
    "Lv = V[:-2, 1:-1] + V[1:-1, :-2] - 4 * v + V[1:-1, 2:] + V[2:, 1:-1]",
    "uvv = u * v * v",
    "U[1:-1, 1:-1] += 0.16 * Lu - uvv + 0.035 * (1 - u)",
    "V[1:-1, 1:-1] += 0.08 * Lv + uvv - 0.1 * v",
)


def _life(b: Blobs) -> None:
    Z = b["Z"]  # noqa: N806
    for _ in range(_MORE):
        up, row, down = Z[:-2], Z[1:-1], Z[2:]
        count = (
            up[:, :-2]
            + up[:, 1:-1]
            + up[:, 2:]
            + row[:, :-2]
            + row[:, 2:]
            + down[:, :-2]
            + down[:, 1:-1]
            + down[:, 2:]
        )
        cell = row[:, 1:-1]
        Z[1:-1, 1:-1] = (count == 3) | ((count == 2) & (cell == 1))


_LIFE = (
    "up, row, down = Z[:-2], Z[1:-1], Z[2:]",
    "N = up[:, :-2] + up[:, 1:-1] + up[:, 2:] + row[:, :-2] + row[:, 2:]"
    " + down[:, :-2] + down[:, 1:-1] + down[:, 2:]",
    "cell = row[:, 1:-1]",
    "Z[1:-1, 1:-1] = (N == 3) | ((N == 2) & (cell == 1))",
)


def _heat(b: Blobs) -> None:
    T = b["T"]  # noqa: N806
    for _ in range(_PASSES):
        t = T[1:-1, 1:-1]
        in_x = T[1:-1, 2:] - 2 * t + T[1:-1, :-2]
        in_y = T[2:, 1:-1] - 2 * t + T[:-2, 1:-1]
        T[1:-1, 1:-1] = t + 0.2 * (in_x + in_y)


_HEAT = (
    "t = T[1:-1, 1:-1]",
    "in_x = T[1:-1, 2:] - 2 * t + T[1:-1, :-2]",
    "in_y = T[2:, 1:-1] - 2 * t + T[:-2, 1:-1]",
    "T[1:-1, 1:-1] = t + 0.2 * (in_x + in_y)",
)


def _waves(b: Blobs) -> None:
    old, now = b["old"], b["now"]
    for _ in range(_PASSES):
        p = now[1:-1, 1:-1]
        spread = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * p
        new = np.zeros_like(now)
        new[1:-1, 1:-1] = 2 * p - old[1:-1, 1:-1] + 0.25 * spread
        old, now = now, new
    b["old"], b["now"] = old, now


_WAVES = (
    "p = now[1:-1, 1:-1]",
    "L = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * p",
    "new = zeros_like(now)",
    "new[1:-1, 1:-1] = 2 * p - old[1:-1, 1:-1] + 0.25 * L",
    "old, now = now, new",
)


def _jacobi(b: Blobs) -> None:
    x, f = b["x"], b["f"]
    for _ in range(_PASSES):
        inner = x[1:-1, 1:-1]
        new = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - f)
        b["change"] = np.max(np.abs(new - inner))
        x[1:-1, 1:-1] = new


_JACOBI = (
    "was = x[1:-1, 1:-1]",
    "new = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - f)",
    "change = max(abs(new - was))",
    "x[1:-1, 1:-1] = new",
)


def _convolution(b: Blobs) -> None:
    X, K = b["X"], b["K"]  # noqa: N806
    for _ in range(_PASSES):
        part = X[2:-2, 2:-2]
        total = np.zeros_like(part)
        for k in range(25):
            row, column = k // 5, k % 5
            shifted = X[row : row + 256, column : column + 256]
            total += K[row, column] * shifted
        X[2:-2, 2:-2] = total


_CONVOLUTION = f"""
      - loop: {_PASSES}
        steps:
          - part = X[2:-2, 2:-2]
          - total = zeros_like(part)
          - loop: 25
            as: k
            steps:
              - row, column = k // 5, k % 5
              - shifted = X[row:row + 256, column:column + 256]
              - total += K[row, column] * shifted
          - X[2:-2, 2:-2] = total
"""


def _loop(*lines: str, passes: int = _PASSES) -> str:
    return f"\n      - loop: {passes}\n        steps:\n" + "".join(
        f'          - "{line}"\n' for line in lines
    )


def _grid(name: str, size: int) -> str:
    return f"{name} = rng.random(({size}, {size}))"


STENCILS = (
    Case("stencil, Gray-Scott, 258 x 258", (_grid("U", 258), _grid("V", 258)),
         _loop(*_GRAY_SCOTT), _gray_scott, 1.02),
    Case("stencil, Gray-Scott, 1026 x 1026", (_grid("U", 1026), _grid("V", 1026)),
         _loop(*_GRAY_SCOTT, passes=2), partial(_gray_scott, passes=2), 1.02),
    Case("stencil, life, 258 x 258", ("Z = int8(rng.random((258, 258)) < 0.4)",),
         _loop(*_LIFE, passes=_MORE), _life, 1.02),
    Case("stencil, heat, 258 x 258", (_grid("T", 258),), _loop(*_HEAT), _heat, 1.02),
    Case("stencil, waves, 258 x 258", (_grid("now", 258), "old = now"),
         _loop(*_WAVES), _waves, 1.02),
    Case("stencil, Jacobi, 258 x 258", (_grid("x", 258), _grid("f", 256), "change = inf"),
         _loop(*_JACOBI), _jacobi, 1.02),
    Case("stencil, convolution by shifts", (_grid("X", 260), "K = rng.random((5, 5)) / 25"),
         _CONVOLUTION, _convolution, 1.02),
)  # fmt: skip
