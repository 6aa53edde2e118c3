"""List the classes of Python's plain values, which have no parts and never change."""

from __future__ import annotations

NUMBERS: frozenset[type] = frozenset({bool, int, float, complex, type(None)})
SCALARS: frozenset[type] = NUMBERS | {str, bytes}
