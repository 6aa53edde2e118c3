"""Nets, and the numpy a person would write for each: what ``bench_nets`` measures. Runs nothing.

A job here makes its blobs in init, and what is measured in its epoch; the function does the
same to a dictionary of the same blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Blobs = dict[str, Any]
# Items of a piece of an array: three such pieces stay in the nearest cache but one.
_PIECE = 1 << 15


@dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        init: Statements that make the blobs.
        epoch: The steps that are measured, as YAML.
        by_hand: The same for a dictionary of blobs.
        aim: The ratio that it should not exceed.
        in_pieces: Of a chain the same calls of numpy's functions piece by piece, in one thread and
            with nothing around them: the least that can be had where no second processor is idle.
    """

    name: str
    init: tuple[str, ...]
    epoch: str
    by_hand: Callable[[Blobs], None]
    aim: float
    in_pieces: Callable[[Blobs], None] | None = None


def _tiny(b: Blobs) -> None:
    x, unit = b["x"], b["one"]
    for _ in range(1_000_000):
        x += unit
    b["x"] = x


def _ten(b: Blobs) -> None:
    x, y, unit = b["x"], b["y"], b["one"]
    for _ in range(20_000):
        x += unit
        y = x * unit
        y -= unit
        x = x - y
        y = y + x
        x *= unit
        y = y / unit
        x = x + unit
        y *= unit
        x = x - unit
    b["x"], b["y"] = x, y


_TEN_STEPS = (
    "x += one", "y = x * one", "y -= one", "x = x - y", "y = y + x", "x *= one", "y = y / one",
    "x = x + one", "y *= one", "x = x - one",
)  # fmt: skip


def _logistic_map(b: Blobs) -> None:
    x = b["x"]
    for _ in range(100_000):
        x = 3.7 * x * (1 - x)
    b["x"] = x


def _logistic(b: Blobs) -> None:
    inputs, y, w = b["X"], b["y"], b["w"]
    for i in range(100):
        xb = inputs[i * 100 : (i + 1) * 100]
        yb = y[i * 100 : (i + 1) * 100]
        p = 1 / (1 + np.exp(-(xb @ w)))
        w -= 0.1 * (xb.T @ (p - yb) / len(yb))
    p = 1 / (1 + np.exp(-(inputs @ w)))
    b["loss"] = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


_LOGISTIC = """
      - loop: 100
        steps:
          - xb = X[iter * 100:(iter + 1) * 100]
          - yb = y[iter * 100:(iter + 1) * 100]
          - p = 1 / (1 + exp(-(xb @ w)))
          - w -= 0.1 * (xb.T @ (p - yb) / len(yb))
      - p = 1 / (1 + exp(-(X @ w)))
      - loss = -mean(y * log(p) + (1 - y) * log(1 - p))
"""


def _kmeans(b: Blobs) -> None:
    points, old = b["X"], b["C"]
    d2 = np.sum(old * old, axis=1) - 2 * points @ old.T
    label = np.argmin(d2, axis=1)
    member = (label[:, None] == np.arange(10)) * 1.0
    n = np.sum(member, axis=0)
    new = np.where(n[:, None] > 0, member.T @ points / np.maximum(n, 1)[:, None], old)
    b["shift"] = np.max(np.sqrt(np.sum((new - old) ** 2, axis=1)))
    b["C"] = new


def _kmeans_loop(b: Blobs) -> None:
    for _ in range(20):
        _kmeans(b)


_KMEANS = (
    "d2 = sum(C * C, axis=1) - 2 * X @ C.T",
    "label = argmin(d2, axis=1)",
    "M = (label[:, None] == arange(10)) * 1.0",
    "n = sum(M, axis=0)",
    "Cnew = where(n[:, None] > 0, M.T @ X / maximum(n, 1)[:, None], C)",
    "shift = max(sqrt(sum((Cnew - C) ** 2, axis=1)))",
    "C = Cnew",
)


def _gauss(b: Blobs) -> None:
    x = b["x"]
    b["y"] = np.exp(-(x * x) / 2) * b["a"] + b["b"]


def _pieces(*arrays: np.ndarray[Any, Any]) -> Iterator[list[np.ndarray[Any, Any]]]:
    """Cut the arrays into pieces, and give each a further one for what is in between."""
    spare = np.empty(_PIECE)
    for start in range(0, len(arrays[0]), _PIECE):
        cut = [array[start : start + _PIECE] for array in arrays]
        yield [*cut, spare[: len(cut[0])]]


def _gauss_in_pieces(b: Blobs) -> None:
    a, two = np.array(b["a"]), np.array(2.0)
    for x, other, y, _ in _pieces(b["x"], b["b"], b["y"]):
        np.multiply(x, x, y)
        np.negative(y, y)
        np.true_divide(y, two, y)
        np.exp(y, y)
        np.multiply(y, a, y)
        np.add(y, other, y)


def _poly(b: Blobs) -> None:
    x = b["x"]
    b["y"] = x * x * x * 0.5 + x * x * 2.0 - x * 3.0 + 1.0


def _poly_in_pieces(b: Blobs) -> None:
    half, unit, two, three = map(np.array, (0.5, 1.0, 2.0, 3.0))
    for x, y, square in _pieces(b["x"], b["y"]):
        np.multiply(x, x, square)
        np.multiply(square, x, y)
        np.multiply(y, half, y)
        np.multiply(square, two, square)
        np.add(y, square, y)
        np.multiply(x, three, square)
        np.subtract(y, square, y)
        np.add(y, unit, y)


def _weighted(b: Blobs) -> None:
    x, y, z = b["x"], b["y"], b["z"]
    b["s"] = b["a"] * x + b["b"] * y - b["c"] * z + b["d"] * x * y


def _weighted_in_pieces(b: Blobs) -> None:
    by_x, by_y, by_z, by_both = (np.array(b[name]) for name in "abcd")
    for x, y, z, s, spare in _pieces(b["x"], b["y"], b["z"], b["s"]):
        np.multiply(by_x, x, s)
        np.multiply(by_y, y, spare)
        np.add(s, spare, s)
        np.multiply(by_z, z, spare)
        np.subtract(s, spare, s)
        np.multiply(by_both, x, spare)
        np.multiply(spare, y, spare)
        np.add(s, spare, s)


def _adam(b: Blobs) -> None:
    g, m, v, w = b["g"], b["m"], b["v"], b["w"]
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    b["w"] = w - 0.01 * m / (np.sqrt(v) + 1e-8)
    b["m"], b["v"] = m, v


def _adam_in_pieces(b: Blobs) -> None:
    keep_m, take_m, keep_v, take_v = map(np.array, (0.9, 0.1, 0.999, 0.001))
    rate, tiny, more = np.array(0.01), np.array(1e-8), np.empty(_PIECE)
    for g, m, v, w, spare in _pieces(b["g"], b["m"], b["v"], b["w"]):
        np.multiply(keep_m, m, m)
        np.multiply(take_m, g, spare)
        np.add(m, spare, m)
        np.multiply(keep_v, v, v)
        np.multiply(take_v, g, spare)
        np.multiply(spare, g, spare)
        np.add(v, spare, v)
        np.sqrt(v, spare)
        np.add(spare, tiny, spare)
        step = np.multiply(rate, m, more[: len(m)])
        np.true_divide(step, spare, step)
        np.subtract(w, step, w)


def _factors(b: Blobs) -> None:
    users, items, row, column, rating = b["U"], b["V"], b["i"], b["j"], b["r"]
    for k in range(100):
        i = row[k * 1000 : (k + 1) * 1000]
        j = column[k * 1000 : (k + 1) * 1000]
        u, v = users[i], items[j]
        error = rating[k * 1000 : (k + 1) * 1000] - np.sum(u * v, axis=1)
        np.add.at(users, i, 0.01 * (error[:, None] * v - 0.02 * u))
        np.add.at(items, j, 0.01 * (error[:, None] * u - 0.02 * v))


_FACTORS = """
      - loop: 100
        as: k
        steps:
          - a = i[k * 1000:(k + 1) * 1000]
          - b = j[k * 1000:(k + 1) * 1000]
          - u, v = U[a], V[b]
          - error = r[k * 1000:(k + 1) * 1000] - sum(u * v, axis=1)
          - "add_at(U, a, 0.01 * (error[:, None] * v - 0.02 * u))"
          - "add_at(V, b, 0.01 * (error[:, None] * u - 0.02 * v))"
"""


def _index_add(b: Blobs) -> None:
    i, change = b["i"], b["change"]
    for _ in range(20):
        users = b["U"].copy()
        np.add.at(users, i, change)
        b["U"] = users


def _steps(*lines: str, indent: int = 6) -> str:
    return "\n" + "".join(f'{" " * indent}- "{line}"\n' for line in lines)


def _loop(passes: int, *lines: str) -> str:
    return f"\n      - loop: {passes}\n        steps:{_steps(*lines, indent=10)}"


_NORMAL = "normal(size=1000000)"
_RATINGS = (
    "U = 0.1 * rng.normal(size=(1000, 16))", "V = 0.1 * rng.normal(size=(1500, 16))",
    "i = rng.integers(0, 1000, 100000)", "j = rng.integers(0, 1500, 100000)",
    "r = rng.normal(size=100000)",
)  # fmt: skip
_POINTS = ("X = floor(16 * rng.random((1797, 64)))", "C = X[:10]", "shift = inf")

CASES = (
    Case("tiny operator, float", ("x = 0.0", "one = 1.0"),
         _loop(1_000_000, "x += one"), _tiny, 1.05),
    Case("tiny operator, array of 4", ("x = zeros(4)", "one = ones(4)"),
         _loop(1_000_000, "x += one"), _tiny, 1.05),
    Case("ten tiny operators, float", ("x = 0.0", "y = 0.0", "one = 1.0"),
         _loop(20_000, *_TEN_STEPS), _ten, 1.05),
    Case("ten tiny operators, array of 4", ("x = zeros(4)", "y = zeros(4)", "one = ones(4)"),
         _loop(20_000, *_TEN_STEPS), _ten, 1.05),
    Case("logistic map, float", ("x = 0.5",), _loop(100_000, "x = 3.7 * x * (1 - x)"),
         _logistic_map, 1.05),
    Case("logistic regression, 10000 x 64", (
            "X = rng.normal(size=(10000, 64))", "y = (rng.random(10000) < 0.5) * 1.0",
            "w = zeros(64)", "loss = inf"),
         _LOGISTIC, _logistic, 1.0),
    Case("k-means, one pass of an epoch", _POINTS, _steps(*_KMEANS), _kmeans, 1.0),
    Case("k-means, 20 passes", _POINTS, _loop(20, *_KMEANS), _kmeans_loop, 1.0),
    Case("chain exp(-(x*x)/2)*a+b", (
            f"x = rng.{_NORMAL}", f"b = rng.{_NORMAL}", "a = 1.5", "y = zeros(1000000)"),
         _steps("y = exp(-(x * x) / 2) * a + b"), _gauss, 0.6, _gauss_in_pieces),
    Case("chain, a polynomial", (f"x = rng.{_NORMAL}", "y = zeros(1000000)"),
         _steps("y = x * x * x * 0.5 + x * x * 2.0 - x * 3.0 + 1.0"), _poly, 0.6,
         _poly_in_pieces),
    Case("chain a*x + b*y - c*z + d*x*y", (
            f"x = rng.{_NORMAL}", f"y = rng.{_NORMAL}", f"z = rng.{_NORMAL}", "a = 0.5", "b = 2.0",
            "c = 3.0", "d = 0.25", "s = zeros(1000000)"),
         _steps("s = a * x + b * y - c * z + d * x * y"), _weighted, 0.6,
         _weighted_in_pieces),
    Case("chain, a step of Adam", (
            f"w = rng.{_NORMAL}", f"g = rng.{_NORMAL}", "m = zeros(1000000)", "v = zeros(1000000)"),
         _steps("m = 0.9 * m + 0.1 * g", "v = 0.999 * v + 0.001 * g * g",
                "w = w - 0.01 * m / (sqrt(v) + 1e-8)"), _adam, 0.6,
         _adam_in_pieces),
    Case("matrix factorisation, add_at", _RATINGS, _FACTORS, _factors, 1.0),
    Case("index_add", (
            "U = zeros((1000, 16))", "i = rng.integers(0, 1000, 10000)",
            "change = rng.normal(size=(10000, 16))"),
         _loop(20, "U = index_add(U, i, change)"), _index_add, 1.0),
)  # fmt: skip
