"""How far values are apart, as lines for people. Compares nothing, and prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobrun.core.excerpt import visible
from jobrun.core.quantities import number
from jobrun.tools.comparing.states import BlobApart
from jobrun.tools.comparing.values import Apart

# As a count nobody reads a longer number.
_MANY = 10**6


def state_lines(blobs: Sequence[BlobApart], *, equal_too: bool = False) -> list[str]:
    """A line for each blob that differs, and one that counts those that do not.

    Args:
        blobs: All that were compared.
        equal_too: Give those a line, too, that do not differ.
    """
    several = len({blob.node for blob in blobs}) > 1
    equal = sum(blob.apart.equal for blob in blobs)
    rows = [
        (visible(f"{blob.node}.{blob.name}" if several else blob.name), how_words(blob.apart))
        for blob in blobs
        if equal_too or not blob.apart.equal
    ]
    alike = [f"  {equal} of {len(blobs)} blobs have the same bits"] if equal else []
    return [*columns(rows), *alike]


def how_words(how: Apart) -> str:
    """``3 of 10 differ, max 0.5, 12 ULP, relative norm 1.00e-03``, as far as it can be told."""
    if how.equal:
        return "the same bits"
    if how.words:
        return visible(how.words)
    parts = [f"{how.count} of {how.size} differ"]
    if how.largest is not None:
        parts.append(f"max {number(how.largest)}")
    if how.ulps is not None:
        parts.append(f"{how.ulps} ULP" if how.ulps < _MANY else f"{how.ulps:.1e} ULP")
    if how.relative is not None:
        parts.append(f"relative norm {how.relative:.2e}")
    return ", ".join(parts)


def columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Names and texts side by side, indented."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in known]
