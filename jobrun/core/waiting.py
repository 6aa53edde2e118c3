"""Wait for something that can only be asked for, until a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    is_done: Callable[[], object],
    limit_s: float,
    poll_s: float = 0.05,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Wait until a function returns something true; return False if the time limit is reached.

    Args:
        is_done: Is called at once, then after each pause; at least once.
        limit_s: How long to wait at most, in seconds.
        poll_s: The longest pause between two calls, in seconds.
        clock: The time in seconds.
    """
    deadline = clock() + limit_s
    while not is_done():
        left_s = deadline - clock()
        if left_s <= 0:
            return False
        time.sleep(min(left_s, poll_s))
    return True
