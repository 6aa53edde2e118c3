"""The same work in two threads at once. What the work is made of, and whose thread it is: not here.

Numpy lets go of the interpreter within a ufunc, so that two threads compute at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import cast

import numpy as np

from jobrun.runtime.frame import Start

Work = Callable[[], None]
# Ways with floating-point events that can be told by another thread than the one that met them.
_CAN_WAIT = frozenset({"ignore", "call"})
# What each thread of its own may do otherwise: a number too small for a normal one, one that
# becomes so, and numbers that have to be rounded up or down.
_TELLING = np.array([2.0**-1074, 2.0**-1022, 1 + 2.0**-52, -1 - 2.0**-52])
_FACTORS = np.array([1.0, 0.5, 1 + 2.0**-52, 1 + 2.0**-52])


def share(work: Work, start: Start) -> None:
    """Run ``work`` here and in another thread, until both have ended.

    Floating-point events of the other thread are told by this one afterwards, so that they have
    its place. Where there can be no other thread, or its processor computes otherwise, this one
    does it all.

    Args:
        work: Takes what is left to do from where both take it, until there is nothing.
        start: Runs work in another thread; raises ``RuntimeError`` where there can be none.

    Raises:
        BaseException: What either raised; the other has ended then, too.
    """
    ways, tell = np.geterr(), np.geterrcall()
    if not _CAN_WAIT.issuperset(ways.values()):
        work()
        return
    way = arithmetic()
    met: list[tuple[str, int]] = []
    raised: list[BaseException] = []
    ended: SimpleQueue[None] = SimpleQueue()

    def beside() -> None:
        try:
            if arithmetic() == way:
                with np.errstate(**ways, call=lambda kind, flags: met.append((kind, flags))):
                    work()
        except BaseException as error:  # noqa: BLE001 - raised below, in the other thread
            raised.append(error)

    try:
        start(beside, lambda: ended.put(None))
    except RuntimeError:
        # There is no thread, or nothing for it to run on.
        work()
        return
    try:
        work()
    finally:
        ended.get()
    if raised:
        raise raised[0]
    # What is met has somebody to be told to: it is ignored elsewhere.
    for kind, flags in dict.fromkeys(met):
        cast("Callable[[str, int], object]", tell)(kind, flags)


def arithmetic() -> bytes:
    """How this thread computes: the same bytes mean the same bits of all results.

    A library that was built with ``-ffast-math``, or ``torch.set_flush_denormal``, changes it for
    the thread in which it is imported or called.
    """
    with np.errstate(all="ignore"):
        told: bytes = (_TELLING * _FACTORS).tobytes()
    return told
