"""Compute the dtypes that numpy gives to results, by the names of dtypes alone, before a run.

The promotion rules are those of NEP 50: a Python scalar is weak, a numpy scalar is not. Where the
result is not sure, it is None; a rule never guesses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import permutations

# numpy's names, as (kind, bytes). longdouble is left out: its size is the machine's.
CODES: dict[str, tuple[str, int]] = {
    "bool": ("b", 1),
    "int8": ("i", 1), "int16": ("i", 2), "int32": ("i", 4), "int64": ("i", 8),
    "uint8": ("u", 1), "uint16": ("u", 2), "uint32": ("u", 4), "uint64": ("u", 8),
    "float16": ("f", 2), "float32": ("f", 4), "float64": ("f", 8),
    "complex64": ("c", 8), "complex128": ("c", 16),
}  # fmt: skip
_NAMES = {code: name for name, code in CODES.items()}
_MOST_DTYPES = 4
_ORDER = "biufc"
_DEFAULT = {"b": "bool", "i": "int64", "f": "float64", "c": "complex128"}


def kind_of(dtype: str | None) -> str:
    """Return the kind letter of a dtype by its name, without numpy: ``b i u f c``, or ""."""
    return CODES[dtype][0] if dtype in CODES else ""


def join_dtypes(dtypes: Iterable[str | None]) -> str | None:
    """Compute the dtype to which numpy promotes several dtypes; None if their order matters.

    The join of three dtypes is not always the join of pairs. Also None for an unknown name.
    """
    several = set(dtypes)
    if not several or len(several) > _MOST_DTYPES or not several <= CODES.keys():
        return None
    orders = permutations(str(dtype) for dtype in several)
    joins = {reduce(join_pair, order) for order in orders}
    return joins.pop() if len(joins) == 1 else None


def same_kind(source: str, target: str) -> bool:
    """Return whether numpy's ``same_kind`` rule lets one dtype be cast to another in place."""
    order = "buifc"
    return order.index(kind_of(source)) <= order.index(kind_of(target))


def dtype_name(text: str) -> str | None:
    """Return the name of a dtype by which it is promoted, such as ``float64`` for ``<f8``."""
    if text in ("bool_", "|b1", "?"):
        return "bool"
    if text in CODES:
        return text
    kind, size = text.lstrip("<=|")[:1], text.lstrip("<=|")[1:]
    return _NAMES.get((kind, int(size))) if size.isdigit() else None


def promote_weak(weak: str, strong: str) -> str:
    """Compute the dtype of an array or numpy scalar combined with a (weak) Python scalar."""
    weak_kind, (kind, size) = CODES[weak][0], CODES[strong]
    if _ORDER.index(weak_kind) <= _ORDER.index(kind) or (weak_kind, kind) == ("i", "u"):
        return strong
    if weak_kind == "c" and kind == "f":
        return _NAMES["c", max(8, 2 * size)]
    return _DEFAULT[weak_kind]


def join_pair(lhs: str, rhs: str) -> str:
    """Compute the dtype to which numpy promotes a pair of dtypes, both given by name."""
    (low_kind, low_size), (high_kind, high_size) = sorted(
        (CODES[lhs], CODES[rhs]), key=lambda code: _ORDER.index(code[0])
    )
    if low_kind == high_kind:
        return _NAMES[low_kind, max(low_size, high_size)]
    if low_kind == "b":
        return _NAMES[high_kind, high_size]
    if (low_kind, high_kind) == ("i", "u"):
        size = low_size if low_size > high_size else 2 * high_size
        return _NAMES.get(("i", size), "float64")
    if low_kind == "f":
        return _NAMES["c", max(2 * low_size, high_size, 8)]
    float_size = min(8, 2 * low_size)
    if high_kind == "c":
        return _NAMES["c", max(2 * float_size, high_size, 8)]
    return _NAMES["f", max(float_size, high_size)]


def as_float(dtype: str | None) -> str | None:
    """Compute to which float dtype numpy promotes an operand of ``exp`` and similar."""
    if dtype not in CODES:
        return None
    kind, size = CODES[str(dtype)]
    if kind in "fc":
        return dtype
    return _NAMES["f", {1: 2, 2: 4}.get(size, 8)]


def as_sum(dtype: str | None) -> str | None:
    """Compute the dtype to which numpy promotes an operand's dtype in ``sum`` and ``prod``."""
    if dtype not in CODES:
        return None
    kind = CODES[str(dtype)][0]
    if kind in "bi":
        return "int64"
    return "uint64" if kind == "u" else dtype


def as_mean(dtype: str | None) -> str | None:
    """Compute to which dtype numpy promotes the operand of ``mean``, ``var`` or ``std``."""
    if dtype not in CODES:
        return None
    return dtype if CODES[str(dtype)][0] in "fc" else "float64"
