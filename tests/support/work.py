"""Count work instead of time: how often each line runs, and how many bytes it has allocated.

A sum over a whole program hides a quadratic part until it is the largest part, at thousands of
items. Each line by itself shows it at a few dozen: what is linear doubles with the number of items,
and what is quadratic is four times as much. Lines that C executes (copies of dicts, concatenated
tuples) are seen by the bytes they allocate. What C searches without allocating (``x in a_list``) is
not seen; ``make bench`` measures how time grows.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.faults import library

# Growth of what doubles, with room for n log n. Tables of dicts grow in powers of two, so that the
# bytes of a line may be three times as many.
MOST_RUNS, MOST_BYTES = 2.2, 3.2
# Per item; below it a line is not looked at: it may run each time that some buffer is full.
_FEW_RUNS, _FEW_BYTES = 1.5, 1_000
# How threads wait for one another is a matter of chance; so is which line of the emitter of YAML
# makes its buffer larger. Code of a spec has its file's name, and two specs have other lines.
_LEFT_OUT = re.compile(r"(threading|queue|bounded_queue|selectors|_base|emitter|work)\.py$|\.yaml$")


@dataclass(slots=True)
class Work:
    """The work of each line, by file and number.

    Attributes:
        runs: How often it began.
        bytes: What was allocated before the next line began.
    """

    runs: Counter[tuple[str, int]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, int]] = field(default_factory=Counter)


class _Line(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.py_object),
        ("line", ctypes.c_int),
        ("runs", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    )


def count_work(act: Callable[[], object]) -> Work:
    """Do something and count the work of its lines, in all threads that it starts."""
    counter = ctypes.PyDLL(str(library("work")))
    counter.next_line.restype = ctypes.c_size_t
    before = sys.gettrace()
    # A new thread calls it once, and then counts.
    threading.settrace(lambda *_: counter.trace_thread())
    counter.start_counting()
    try:
        act()
    finally:
        counter.stop_counting()
        threading.settrace(before)  # type: ignore[arg-type]
        sys.settrace(before)
    work, entry = Work(), _Line()
    slot = counter.next_line(ctypes.c_size_t(0), ctypes.byref(entry))
    while slot:
        line = (entry.code.co_filename, entry.line)
        work.runs[line] += entry.runs
        work.bytes[line] += entry.bytes
        slot = counter.next_line(ctypes.c_size_t(slot), ctypes.byref(entry))
    return work


def growing_lines(make: Callable[[int], Callable[[], object]], count: int) -> list[str]:
    """Return the lines whose work more than doubles from ``count`` items to twice as many.

    Twice, if there are any: a table of the whole process (of interned strings, say) that has to
    grow takes megabytes once, in whichever line that happens.

    Args:
        make: Prepares something for so many items, and returns what does it.
        count: How many items.
    """
    make(3)()  # what is imported and cached on the way is no work of the items
    grown = _growing_lines(make, count)
    again = _growing_lines(make, count) if grown else {}
    return [text for line, text in grown.items() if line in again]


def _growing_lines(
    make: Callable[[int], Callable[[], object]], count: int
) -> dict[tuple[str, int], str]:
    small, large = count_work(make(count)), count_work(make(2 * count))
    grown = {}
    for line in sorted(large.runs.keys() | large.bytes.keys()):
        if _LEFT_OUT.search(line[0]):
            continue
        runs, more_runs = small.runs[line], large.runs[line]
        taken, more_taken = small.bytes[line], large.bytes[line]
        if more_runs > MOST_RUNS * runs + _FEW_RUNS * count:
            grown[line] = f"{line[0]}:{line[1]} runs {runs} → {more_runs} times"
        elif more_taken > MOST_BYTES * taken + _FEW_BYTES * count:
            grown[line] = f"{line[0]}:{line[1]} allocates {taken} → {more_taken} bytes"
    return grown
