"""How the benchmarks measure: all variants in turn, many times, medians, ratios to one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

ROUNDS = 7
_DEPTHS = 6


def medians(
    variants: Mapping[str, Callable[[], object]],
    *,
    rounds: int = ROUNDS,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of one call of each variant: the median of rounds in which all take their turn.

    What disturbs the machine then disturbs all of them alike. A first round is not counted.

    Args:
        variants: By name.
        rounds: How many count.
        calls: How many calls make one measurement.
        clock: ``time.process_time`` for work of one thread, with which other load interferes less.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, act in variants.items():
            begun = clock()
            _call_at_depth(turn % _DEPTHS, act, calls)
            if turn:
                times[name].append((clock() - begun) / calls)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def _call_at_depth(depth: int, act: Callable[[], object], calls: int) -> None:
    """Call so many times, from below so many frames of Python, each in one of C.

    Where in memory its frame lies decides a quarter of the time of a loop over tiny operators
    (Mytkowicz and others, Producing wrong data without doing anything obviously wrong, 2009).
    """
    if depth:
        next(map(_call_at_depth, (depth - 1,), (act,), (calls,)))
        return
    for _ in range(calls):
        act()


def verdict(figure: float, most: float | None = None, least: float | None = None) -> str:
    """What is printed behind a figure: its aim, or that it misses it.

    Args:
        figure: The figure.
        most: What it may be at most; None where that is no aim.
        least: What it must be at least; None where that is no aim.
    """
    if most is not None and figure > most:
        return f"   MISSES {figure:.2f} > {most:g}"
    if least is not None and figure < least:
        return f"   MISSES {figure:.2f} < {least:g}"
    if most is None and least is None:
        return ""
    return f"   (aim: at most {most:g})" if most is not None else f"   (aim: at least {least:g})"


def show(
    title: str,
    times: Mapping[str, float],
    baseline: str,
    aims: Mapping[str, float] = MappingProxyType({}),
    floors: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print each variant with its ratio to the baseline.

    Args:
        title: What was measured.
        times: Seconds of each variant.
        baseline: The variant to compare with.
        aims: The ratios that variants should not exceed.
        floors: Of variants the name of another one, the least that can be had.
    """
    print(f"\n{title}")
    for name, seconds in times.items():
        ratio = seconds / times[baseline]
        row = (
            f"  {name:44} {seconds * 1e6:12,.1f} us  {ratio:8.2f} x{verdict(ratio, aims.get(name))}"
        )
        if name in floors:
            row += f"   floor {times[floors[name]] / times[baseline]:.2f} x"
        print(row, flush=True)
