"""Limit what a test may use."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator


@contextlib.contextmanager
def no_larger_than(most_bytes: int) -> Iterator[None]:
    """Fail if the body allocates more than that at any time, in Python or numpy."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most_bytes, f"{peak} bytes"
