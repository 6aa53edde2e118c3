"""The catalogue of error codes that ``jobrun explain`` prints: one literal table per layer."""

from __future__ import annotations

from jobrun.core.codes import checkpoint, compile, runner, runtime, spec, usage  # noqa: A004
from jobrun.core.codes.code import Code

__all__ = ["Code", "catalogue"]


def catalogue() -> dict[str, Code]:
    """All codes, in order."""
    merged: dict[str, Code] = {}
    for layer in (spec, compile, runtime, checkpoint, runner, usage):
        merged |= layer.CODES
    return dict(sorted(merged.items()))
