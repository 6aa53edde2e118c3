"""Several runs side by side: how each stands, and how they differ from the first. Pure markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.core.quantities import number, span
from jobrun.runner.authored import is_from_python, recorded
from jobrun.runner.drift import Change, mapping_changes, spec_changes
from jobrun.tools.comparing.states import states_apart
from jobrun.tools.report.data import RunReport
from jobrun.tools.report.figures import key
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.report.sections import Section, environment

_MOST_CHANGES = 60


def summary(reports: Sequence[RunReport]) -> Html:
    """One line for each run."""
    rows = []
    for at, one in enumerate(reports):
        status = one.status
        took = sum(part.ended - part.started for part in one.history.invocations)
        name = tag("a", one.run.name, href=f"#run-{at}")
        epoch = str(status.epoch) if status.epoch >= 0 else "-"
        reason = one.run.record.reason if status.owner is None else ""
        rows.append((key(at), name, status.status, epoch, span(took), reason))
    return table(("line", "run", "status", "epoch", "took", "why it ended"), rows)


def difference_sections(reports: Sequence[RunReport]) -> Iterator[Section]:
    """Last values, parameters, environment, spec and state: what is not alike in all."""
    lasts = [{name: number(value) for name, value in one.metrics_last.items()} for one in reports]
    if any(lasts):
        yield "last", "Last values", _side_by_side("metric", reports, lasts, all_rows=True)
    params = [dict(_params(one)) for one in reports]
    yield "params", "Parameters that differ", _side_by_side("parameter", reports, params)
    made = [environment(one) for one in reports]
    yield "environment", "Environment that differs", _side_by_side("what", reports, made)
    parts = [_against(reports[0], other, at) for at, other in enumerate(reports[1:], start=1)]
    yield "differences", "Against the first run", joined(parts)


def _params(report: RunReport) -> Iterator[tuple[str, str]]:
    for name, value in report.job.params if report.job else ():
        yield name, number(value) if isinstance(value, float) else str(value)


def _side_by_side(
    what: str,
    reports: Sequence[RunReport],
    found: Sequence[dict[str, str]],
    *,
    all_rows: bool = False,
) -> Html:
    names = dict.fromkeys(name for one in found for name in one)
    rows = [(name, [one.get(name, "-") for one in found]) for name in names]
    kept = [(name, values) for name, values in rows if all_rows or len(set(values)) > 1]
    if not kept:
        return tag("p", "All runs are alike in this.", class_="note")
    heads = [tag("th", what, scope="col")]
    heads += [tag("th", key(at), _short(one), scope="col") for at, one in enumerate(reports)]
    lines = (tag("tr", *(tag("td", cell) for cell in (name, *values))) for name, values in kept)
    inside = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    return tag("div", inside, class_="scroll", tabindex="0", role="group", aria_label=f"{what}s")


def _short(report: RunReport) -> str:
    return report.run.path.name.split("-", 2)[-1]


def _against(first: RunReport, other: RunReport, at: int) -> Html:
    parts = [tag("h3", key(at), other.run.name)]
    try:
        changes = _changes(first, other)
    except JobrunError as error:
        parts.append(tag("p", f"The specs cannot be compared: {error.faults[0].message}"))
        changes = ()
    if changes:
        rows = ((tag("code", one.field), one.before or "-", one.after or "-") for one in changes)
        parts.append(table(("spec or code", "first run", "this run"), rows))
    else:
        parts.append(tag("p", "The same spec and code.", class_="note"))
    return joined([*parts, *_state(first, other)])


def _changes(first: RunReport, other: RunReport) -> tuple[Change, ...]:
    code = mapping_changes("callables", first.run.record.callables, other.run.record.callables)
    if is_from_python(first.run) or is_from_python(other.run):
        return code
    found = (*spec_changes(recorded(first.run), recorded(other.run)), *code)
    return found[:_MOST_CHANGES]


def _state(first: RunReport, other: RunReport) -> Iterable[Html]:
    one, two = first.stored.newest, other.stored.newest
    if one is None or two is None:
        return
    apart = states_apart(one, two)
    rows: list[tuple[Any, ...]] = []
    for blob in apart:
        how = blob.apart
        if not how.equal:
            largest = "-" if how.largest is None else number(how.largest)
            relative = "-" if how.relative is None else f"{how.relative:.2e}"
            count = how.words or f"{how.count} of {how.size}"
            rows.append((f"{blob.node}.{blob.name}", count, largest, relative))
    words = f"State after epoch {one.epoch} of the first and {two.epoch} of this run: "
    alike = len(apart) - len(rows)
    yield tag("p", words + f"{alike} of {len(apart)} blobs have the same bits.", class_="note")
    if rows:
        yield table(("blob", "differ", "largest difference", "relative norm"), rows[:_MOST_CHANGES])
