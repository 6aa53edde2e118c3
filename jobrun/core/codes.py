"""Name the type of error codes. For mypy, ``codes.pyi`` lists the codes of the error catalogue."""

from __future__ import annotations

Code = str
