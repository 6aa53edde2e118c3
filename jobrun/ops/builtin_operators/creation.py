"""Declare the operators that create arrays from numbers, and change their dtype."""

from __future__ import annotations

from jobrun.ops.definition import MANY, OpDef, ruled
from jobrun.ops.type_rules.creation import CREATION_RULES
from jobrun.ops.type_rules.index_functions import MESH_RULES
from jobrun.ops.type_rules.transforms import POWER_RULES


def _op(name: str, signature: str, doc: str, example: str, *, shares: bool = False) -> OpDef:
    return OpDef(name, signature, f"numpy:{name}", doc, example, shares_memory=shares)


# 'empty' is left out: what it holds is not a function of anything.
_CREATION = (
    _op("zeros", "(shape, dtype=None)", "zeros, float64 unless said", "zeros((2, 3))"),
    _op("ones", "(shape, dtype=None)", "ones, float64 unless said", "ones(3, int64)"),
    _op("full", "(shape, fill_value, dtype=None)", "one value everywhere", "full((2, 2), 0.5)"),
    _op("zeros_like", "(a, dtype=None)", "zeros of the shape and dtype of a", "zeros_like([1, 2])"),
    _op("ones_like", "(a, dtype=None)", "ones of the shape and dtype of a", "ones_like([1, 2])"),
    _op("full_like", "(a, fill_value, dtype=None)", "one value, of the shape and dtype of a",
        "full_like([1.0, 2.0], 7)"),
    _op("arange", "(start_or_stop, stop=None, step=1, /, *, dtype=None)",
        "start, start + step, … below stop", "arange(0, 10, 2)"),
    _op("linspace", "(start, stop, num=50, endpoint=True, *, dtype=None, axis=0)",
        "num equal steps from start to stop", "linspace(0.0, 1.0, 5)"),
    _op("logspace", "(start, stop, num=50, endpoint=True, base=10.0, *, dtype=None)",
        "base to the powers start … stop", "logspace(0.0, 2.0, 3)"),
    _op("geomspace", "(start, stop, num=50, endpoint=True, *, dtype=None)",
        "num equal ratios from start to stop", "geomspace(1.0, 8.0, 4)"),
    _op("eye", "(N, M=None, k=0, dtype=float64)", "ones on the k-th diagonal, else zeros",
        "eye(3)"),
    _op("identity", "(n, dtype=None)", "the n by n unit matrix", "identity(2)"),
    _op("diag", "(v, k=0)", "the k-th diagonal of a matrix, or a matrix with it",
        "a = eye(3); diag(a)", shares=True),
    _op("diagflat", "(v, k=0)", "a matrix with the items on the k-th diagonal", "diagflat([1, 2])"),
    _op("tri", "(N, M=None, k=0, dtype=float64)", "ones at and below the k-th diagonal", "tri(3)"),
    _op("tril", "(m, k=0)", "zeros above the k-th diagonal", "tril(ones((3, 3)))"),
    _op("triu", "(m, k=0)", "zeros below the k-th diagonal", "triu(ones((3, 3)))"),
    _op("vander", "(x, N=None, increasing=False)", "powers of x as columns",
        "vander([1.0, 2.0, 3.0], 2)"),
    OpDef("meshgrid", "(*xi, sparse=False, indexing='xy')", "numpy:meshgrid",
          "coordinates of a grid, one array per axis", "meshgrid([1, 2], [3, 4])", results=MANY),
    OpDef("array", "(object, dtype=None)", "jobrun.ops.implementations.non_numpy_functions:array",
          "an array of the numbers in a list, or a copy", "array([[1, 2], [3, 4]], float32)"),
    OpDef("copy", "(a)", "numpy:copy", "a copy; assignment makes one by itself", "copy([1, 2])"),
    OpDef("astype", "(x, dtype)", "jobrun.ops.implementations.non_numpy_functions:astype",
          "the same numbers in another dtype", "astype([1.7, 2.2], int64)"),
    OpDef("int", "(x, /)", "jobrun.ops.implementations.non_numpy_functions:to_int",
          "a Python int of one number, without its fraction", "int(2.9)"),
    OpDef("float", "(x, /)", "jobrun.ops.implementations.non_numpy_functions:to_float",
          "a Python float of one number", "float(3)"),
    OpDef("bool", "(x, /)", "jobrun.ops.implementations.non_numpy_functions:to_bool",
          "a Python bool of one number: whether it is not 0", "bool(2)"),
    OpDef("len", "(a, /)", "builtins:len", "length of the first axis, or of text",
          "len([[1, 2], [3, 4], [5, 6]])"),
    OpDef("one_hot", "(labels, length, dtype=float64)",
          "jobrun.ops.implementations.non_numpy_functions:one_hot",
          "rows with a 1 at the label and 0 elsewhere", "one_hot([2, 0], 3)"),
)  # fmt: skip

CREATION = ruled(_CREATION, {**CREATION_RULES, **MESH_RULES, **POWER_RULES})
