"""The types of blobs as a generator of expressions must know them, with a sample of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tests.support.expression_models import View
from tests.support.reference import Count


class Type(NamedTuple):
    """Kind (array, numpy, int, float, bool, text, counter, list, grow), dtype and shape."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()

    @property
    def is_scalar(self) -> bool:
        return self.kind in {"numpy", "int", "float", "bool"}


INT, FLOAT, BOOL, TEXT = Type("int"), Type("float"), Type("bool"), Type("text")
COUNTER, GROW = Type("counter"), Type("grow", "float64", (2,))
DTYPES = ("float64", "float32", "int64", "int8", "uint8", "bool", "complex128", "complex64")
SHAPES = ((3,), (2, 3), (3, 2), (6,), ())


def typed(value: Any) -> Type:
    """The type of a value; raises KeyError for what no blob holds."""
    if type(value) is np.ndarray:
        return Type("array", value.dtype.name, value.shape)
    if isinstance(value, np.generic):
        return Type("numpy", value.dtype.name)
    kinds = {bool: "bool", int: "int", float: "float", str: "text", Count: "counter"}
    return Type(kinds[type(value)])


def sample(kind: Type) -> Any:
    """A value of the type."""
    match kind.kind:
        case "array" | "grow":
            return np.ones(kind.shape, kind.dtype)
        case "numpy":
            return np.dtype(kind.dtype).type(1)
        case "list":
            # Of the instances' arrays, or of their numpy scalars.
            return [np.ones(kind.shape, kind.dtype)[... if kind.shape else ()]] * 2
    return {"int": 1, "float": 1.0, "bool": True, "text": "ab", "counter": Count(1)}[kind.kind]


class Samples(View):
    """A view in which every name has a sample of its type."""

    def __init__(self, names: Mapping[str, Type], outputs: Mapping[tuple[str, str], Type]) -> None:
        self._names = names
        self._outputs = outputs

    def read(self, name: str) -> Any:
        return sample(self._names[name])

    def output(self, task: str, name: str) -> Any:
        return sample(self._outputs[task, name])

    def word(self, name: str) -> Any:
        return 1

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)
