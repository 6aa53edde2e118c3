"""Wait for a condition, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

# A test that passes never waits for it; far above what a machine with other work needs.
_LIMIT_S = 100.0


def wait_until(
    condition: Callable[[], object], description: str = "the condition", limit_s: float = _LIMIT_S
) -> None:
    """Wait until a condition holds, asking every few milliseconds.

    Args:
        condition: Called without arguments until its result is true.
        description: What is waited for, for the message.
        limit_s: Seconds after which the test fails.

    Raises:
        AssertionError: The condition did not hold in time.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"no {description} within {limit_s:g} s"
        time.sleep(0.003)
