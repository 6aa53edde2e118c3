"""What the jobs call: values of every kind that a checkpoint holds, and an end like a kill."""

import os
import signal
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Point(NamedTuple):
    """A point in a plane."""

    x: float
    y: float


@dataclass
class Settings:
    """A rate, and labels that grow."""

    rate: float
    labels: list


def make():
    """Make a dict of values of many kinds."""
    return {
        "text": "naïve ∑ \u0000 text",
        "bytes": b"\x00\xff",
        "none": None,
        "yes": True,
        "small": 7,
        "large": 2**100,
        "floats": [0.5, -0.0, float("inf"), float("nan")],
        "complex": 1.5 - 2j,
        "items": [1, "two", (3.0, [None, b""])],
        "numbers": list(range(40)),
        "empty": [[], (), {}],
        "by number": {1: "one", 2: np.float32(0.25)},
        "ordered": OrderedDict(b=1, a=2),
        "point": Point(1.0, 2.5),
        "settings": Settings(0.125, ["a", "b"]),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "rows": np.array([(1, 0.5), (2, 0.25)], dtype=[("n", "i4"), ("share", "f8")]),
    }


def change(values, epoch):
    """Change a part of each kind that can change."""
    values["small"] += epoch
    values["large"] *= 3
    values["text"] += str(epoch)
    values["items"][2][1].append(epoch)
    values["numbers"].append(epoch)
    values["by number"][epoch + 10] = np.float64(epoch)
    values["point"] = Point(values["point"].y, values["point"].x)
    values["settings"].labels.append(f"epoch {epoch}")
    values["array"] += epoch
    values["rows"]["n"] *= 2


def draw(own):
    """Draw from a generator that is state."""
    return int(own.integers(1000))


def end_at(count):
    """End the process like a kill where the environment names this count."""
    if os.environ.get("ENDED_AT") == str(count):
        os.kill(os.getpid(), signal.SIGKILL)
