"""How the benchmarks measure: all variants in turn, many times, medians, ratios to one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 7


def medians(
    variants: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS, calls: int = 1
) -> dict[str, float]:
    """Seconds of one call of each variant: the median of rounds in which all take their turn.

    What disturbs the machine then disturbs all of them alike. A first round is not counted.

    Args:
        variants: By name.
        rounds: How many count.
        calls: How many calls make one measurement.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, act in variants.items():
            begun = time.perf_counter()
            for _ in range(calls):
                act()
            if turn:
                times[name].append((time.perf_counter() - begun) / calls)
    return {name: statistics.median(found) for name, found in times.items()}


def show(title: str, found: Mapping[str, float], baseline: str, aim: str = "") -> None:
    """Print each variant with its ratio to the baseline."""
    print(f"\n{title}{f'   (aim: {aim})' if aim else ''}")
    for name, seconds in found.items():
        print(f"  {name:44} {seconds * 1e6:12,.1f} us  {seconds / found[baseline]:8.2f} x")
