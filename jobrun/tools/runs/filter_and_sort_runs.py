"""Filter, sort and group runs, and find the params in which those of a group differ."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain, compress, repeat
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import JobrunError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.terminal_text import csv_text
from jobrun.core.text.units import parse_span
from jobrun.tools.runs.summarise_runs import RunSummary, Value

# Columns that each run has; those of params and metrics begin with these words.
OWN_COLUMNS = ("job", "status", "epoch", "age", "left", "seed", "code", "data", "versions")
# Columns on what computed a run; shown where the runs of a group differ.
ORIGINS = ("code", "data", "versions")
PARAMS, METRICS = "params.", "metrics."
_DURATIONS = ("age", "left")
_CONDITION = lazy_pattern(r"\s*([^<>=!\s]+)\s*(<=|>=|==|!=|<|>|=)\s*(.*?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_EQUALITY = frozenset({"=", "==", "!="})
_PARAMS_OF, _METRICS_OF = operator.attrgetter("params"), operator.attrgetter("metrics")


class Condition(Struct, frozen=True):
    """A condition that runs are filtered by, such as ``rate<0.1`` or ``age>2d``."""

    name: str
    comparison: str
    text: str

    def judge(self) -> Callable[[Value | None], bool]:
        """Build the function that tests whether a run's value meets this filter condition.

        It never holds for a missing one.
        """
        compare, wanted = _COMPARE[self.comparison], self.number
        is_equality, differs = self.comparison in _EQUALITY, self.comparison == "!="

        def holds(value: Value | None) -> bool:
            if value is None:
                return False
            if is_equality and isinstance(value, bool | str):
                shown = str(value).lower() if isinstance(value, bool) else value
                return compare(shown, _unquoted(self.text))
            if isinstance(value, str) or wanted is None:
                # Text that is no number differs from each number.
                return differs
            return compare(value, wanted)

        return holds

    def judge_all(self, values: Sequence[Value | None]) -> Iterable[bool]:
        """Test each value of a column of runs by this filter condition; return the bools."""
        wanted, compare = self.number, _COMPARE[self.comparison]
        if wanted is not None and set(map(type, values)) <= {int, float, NoneType}:
            # As most columns are: without a call of Python for each value.
            return [value is not None and compare(value, wanted) for value in values]
        return map(self.judge(), values)

    @property
    def number(self) -> float | None:
        """Return the number with which this condition of a filter compares; None for text.

        A duration is in seconds.
        """
        if self.name in _DURATIONS:
            return parse_span(self.text)
        try:
            return float(self.text)
        except ValueError:
            return None


class RunGroup(Struct, frozen=True):
    """Runs that belong together: those of one job, or the points of a sweep.

    Attributes:
        title: The job's name, or ``sweep NAME``.
        runs: The runs, a fork behind the run that it was made from.
        depths: For each run, how many forks it is away from the first run of the group above it.
        params: Names of the params whose values differ between these runs; ``seed`` among them.
        metrics: Names of their metrics.
        origins: Those of ``ORIGINS`` in which these runs differ.
    """

    title: str
    runs: tuple[RunSummary, ...]
    depths: tuple[int, ...]
    params: tuple[str, ...]
    metrics: tuple[str, ...]
    origins: tuple[str, ...] = ()


def parse_condition(text: str) -> Condition:
    """Parse a condition by which runs are filtered, such as ``rate<0.1``.

    Raises:
        UsageError: E449, it is not ``NAME<VALUE`` with one of ``< <= > >= = !=``.
    """
    match = _CONDITION.fullmatch(text)
    if match is None or not match[3]:
        raise UsageError.of(
            "E449",
            f"'{text}' is no condition",
            "write a name, a comparison and a value in quotes, such as 'rate<0.1' or 'age>2d'",
        )
    condition = Condition(match[1], match[2], match[3])
    if condition.name in _DURATIONS and condition.number is None:
        raise UsageError.of(
            "E449",
            f"'{condition.text}' is no duration",
            f"write such as '{condition.name}<2h' or 30m, 7d",
        )
    return condition


def find_column(name: str, runs: Sequence[RunSummary]) -> str:
    """Find the column that a user's text names, to sort or filter runs by its values.

    Returns:
        ``params.NAME``, ``metrics.NAME``, or one of ``OWN_COLUMNS``.

    Raises:
        UsageError: E449, no run has such a column, or both a param and a metric are called so.
    """
    (column,) = find_columns((name,), runs)
    return column


def find_columns(names: Iterable[str], runs: Sequence[RunSummary]) -> list[str]:
    """Find the columns of given names, by which to filter or sort runs; refuse unknown ones.

    Raises:
        UsageError: See ``find_column``.
    """
    return [_matching(name, runs) for name in names]


def _matching(name: str, runs: Sequence[RunSummary]) -> str:
    """Find the param, metric or other column that a filter or an order of runs names."""
    matches = [
        prefix + key
        for prefix, of_kind in ((PARAMS, _PARAMS_OF), (METRICS, _METRICS_OF))
        for key in dict.fromkeys((name.removeprefix(prefix), name))
        # Usually the first run has it. Without a step of Python for each of ten thousand.
        if any(map(operator.contains, map(of_kind, runs), repeat(key)))
    ]
    if len(matches) > 1:
        listed = " or ".join(matches)
        raise UsageError.of("E449", f"'{name}' is a param and a metric", f"write {listed}")
    if matches or name in OWN_COLUMNS:
        return matches[0] if matches else name
    known = [*_union(runs, PARAMS), *_union(runs, METRICS)]
    bare = [column.partition(".")[2] for column in known]
    raise UsageError.of(
        "E449",
        f"no run here has a param or metric '{name}'",
        did_you_mean(name, [*bare, *OWN_COLUMNS]),
    )


def read_column(runs: Iterable[RunSummary], column: str, now: datetime) -> list[Value | None]:
    """Read a column's values, to sort or filter runs by it; None for a run without a value."""
    kind, dot, name = column.partition(".")
    if dot:
        of_kind = _PARAMS_OF if kind + dot == PARAMS else _METRICS_OF
        return [values.get(name) for values in map(of_kind, runs)]
    match column:
        case "age":
            return [run.age_s(now) for run in runs]
        case "left":
            return [run.left_s for run in runs]
        case "epoch":
            return [run.epoch if run.epoch >= 0 else None for run in runs]
        case _:
            return [getattr(run, column) for run in runs]


def filter_runs(
    runs: Sequence[RunSummary], conditions: Iterable[Condition], now: datetime
) -> list[RunSummary]:
    """Filter runs: return those for which every given condition holds.

    Raises:
        UsageError: E449, no run has the column of a condition, or text is compared by size.
    """
    # Whether each run passes the conditions so far.
    is_kept = [True] * len(runs)
    for condition in conditions:
        column = find_column(condition.name, runs)
        values = read_column(runs, column, now)
        if condition.comparison not in _EQUALITY and values and not any(map(_is_number, values)):
            raise UsageError.of(
                "E449",
                f"'{condition.name}' is text, which has no order",
                f"write '{condition.name}={condition.text}' or "
                f"'{condition.name}!={condition.text}'",
            )
        is_kept = list(map(operator.and_, is_kept, condition.judge_all(values)))
    return list(compress(runs, is_kept))


def sort_runs(runs: Sequence[RunSummary], text: str, now: datetime) -> list[RunSummary]:
    """Sort runs by a column, descending if its name begins with ``-``; missing values come last.

    Raises:
        UsageError: E449, no run has the column.
    """
    column = find_column(text.removeprefix("-"), runs)
    values = read_column(runs, column, now)
    if _are_numbers(values) and not any(map(_is_missing, values)):
        order = sorted(range(len(runs)), key=values.__getitem__, reverse=text.startswith("-"))
        return [runs[index] for index in order]
    pairs = list(zip(values, runs, strict=True))
    there = [pair for pair in pairs if not _is_missing(pair[0])]
    there.sort(key=lambda pair: _rank(pair[0]), reverse=text.startswith("-"))
    return [run for _, run in there] + [run for value, run in pairs if _is_missing(value)]


def with_best_metrics(
    runs: Sequence[RunSummary], run_dir: Path, text: str, now: datetime
) -> list[RunSummary]:
    """Replace the last metrics of runs by their best epoch's, and sort the best run first.

    Args:
        runs: The runs.
        run_dir: The directory that their paths start from.
        text: The metric that is judged by: its minimum, or ``max:METRIC``.
        now: The present time.

    Raises:
        UsageError: E449, no run has the metric.
    """
    mode, colon, name = text.partition(":")
    if not colon or mode not in ("min", "max"):
        mode, name = "min", text
    column = find_column(name if name.startswith(METRICS) else METRICS + name, runs)
    name = column.removeprefix(METRICS)
    best = [_with_best(run, run_dir, name, mode) for run in runs]
    return sort_runs(best, ("-" if mode == "max" else "") + column, now)


def _with_best(run: RunSummary, run_dir: Path, name: str, mode: str) -> RunSummary:
    from jobrun.tools.runs.metrics import read_metrics  # noqa: PLC0415 - not for each table

    try:
        metrics = read_metrics(run_dir / run.path)
    except JobrunError:
        return replace(run, metrics={})
    points = metrics.column(name) if name in metrics.names else []
    if not points:
        return replace(run, metrics={})
    # The first epoch counts where values are equal.
    epoch, _ = min(points, key=lambda point: -point[1] if mode == "max" else point[1])
    values = dict(metrics.rows)[epoch]
    pairs = zip(metrics.names, values, strict=True)
    declared = {
        metric: value for metric, value in pairs if metric in run.metrics and value is not None
    }
    return replace(run, metrics=declared, best_epoch=epoch)


def group_runs(
    runs: Sequence[RunSummary], *, nest_forks: bool = True, always: Collection[str] = ()
) -> list[RunGroup]:
    """Group filtered and sorted runs by job or sweep; groups with newer runs come later.

    Args:
        runs: The runs, in the order that they are shown in.
        nest_forks: Put forks behind the runs that they were made from.
        always: Columns that are shown also where all runs of a group have the same value.
    """
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        sweep = run.sweep if run.tags else ""
        groups.setdefault(f"sweep {sweep}" if sweep else run.job, []).append(run)
    newest = operator.attrgetter("order")
    ordered = sorted(groups.items(), key=lambda item: max(map(newest, item[1])))
    return [_group(title, members, always, nest_forks=nest_forks) for title, members in ordered]


def _group(
    title: str, runs: list[RunSummary], always: Collection[str], *, nest_forks: bool
) -> RunGroup:
    rows = _nested(runs) if nest_forks else [(run, 0) for run in runs]
    columns = [
        column for column in _union(runs, PARAMS) if column in always or _differs(runs, column)
    ]
    params = [column.removeprefix(PARAMS) for column in columns]
    seeds = ["seed"] if "seed" in always or len({run.seed for run in runs}) > 1 else []
    return RunGroup(
        title,
        tuple(run for run, _ in rows),
        tuple(depth for _, depth in rows),
        tuple(params + seeds),
        tuple(metric.removeprefix(METRICS) for metric in _union(runs, METRICS)),
        tuple(
            origin
            for origin in ORIGINS
            if origin in always or len(set(map(attrgetter(origin), runs))) > 1
        ),
    )


def _nested(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, int]]:
    """Sort runs so that forks follow their parents; return each run with its depth."""
    present = {run.run_id for run in runs}
    forks: dict[str, list[RunSummary]] = {}
    roots: list[RunSummary] = []
    for run in runs:
        # A record may be damaged so that it is its own ancestor: it still has to be shown.
        is_fork = run.parent_id in present and run.parent_id != run.run_id
        (forks.setdefault(run.parent_id, []) if is_fork else roots).append(run)
    rows: list[tuple[RunSummary, int]] = []
    pending = [(run, 0) for run in reversed(roots)]
    while pending:
        run, depth = pending.pop()
        rows.append((run, depth))
        pending += [(fork, depth + 1) for fork in reversed(forks.pop(run.run_id, []))]
    return rows + [(run, 0) for orphans in forks.values() for run in orphans]


def _differs(runs: Sequence[RunSummary], column: str) -> bool:
    name = column.removeprefix(PARAMS)
    first = runs[0].params.get(name)
    return any(params.get(name) != first for params in map(_PARAMS_OF, runs))


def _union(runs: Sequence[RunSummary], prefix: str) -> list[str]:
    """List the columns of params or metrics that any of the runs has, to filter by them."""
    values = map(_PARAMS_OF if prefix == PARAMS else _METRICS_OF, runs)
    return [prefix + name for name in dict.fromkeys(chain.from_iterable(values))]


def render_csv(runs: Sequence[RunSummary]) -> str:
    """Render filtered and sorted runs as CSV: a line for each, with its params and metrics."""
    columns = [*_union(runs, PARAMS), *_union(runs, METRICS)]
    rows: list[list[object]] = [[*_CSV, *columns]]
    for run in runs:
        cells = [run.path, run.job, run.created, run.status, run.epoch, run.exit_code, run.seed]
        cells += [run.parent, " ".join(run.tags), run.reason, run.code, run.data, run.versions]
        params = [
            run.params.get(column.removeprefix(PARAMS)) for column in columns if column[0] == "p"
        ]
        metrics = [
            run.metrics.get(column.removeprefix(METRICS)) for column in columns if column[0] == "m"
        ]
        rows.append(["" if value is None else value for value in (*cells, *params, *metrics)])
    return csv_text(rows)


_CSV = (
    "run", "job", "created", "status", "epoch", "exit_code", "seed", "parent", "tags", "reason",
    "code", "data", "versions",
)  # fmt: skip


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int | float)


def _are_numbers(values: Sequence[Value | None]) -> TypeGuard[Sequence[float]]:
    """Return whether all values to sort runs by are numbers; a bool does not count as one."""
    return set(map(type, values)) <= {int, float}


def _is_missing(value: Value | None) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _rank(value: Value | None) -> tuple[bool, Any]:
    return isinstance(value, str), value
