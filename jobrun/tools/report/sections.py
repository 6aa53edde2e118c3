"""The parts of a report about one run, as markup. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jobrun.core.quantities import number, span
from jobrun.graph.svg import svg
from jobrun.tools.report.data import RunReport
from jobrun.tools.report.history import Invocation, TaskTime
from jobrun.tools.report.html import Html, facts, joined, table, tag, text
from jobrun.tools.report.lineage import Link
from jobrun.tools.report.spec_text import marked
from jobrun.tools.report.state import stored_section
from jobrun.tools.report.timeline import legend, timeline

_LOOKS = {"finished": "good", "running": "good", "stopped": "warn", "interrupted": "warn"}
_MOST_ROWS = 25
_MOST_BARS = 14
_MOST_NOTICES = 30
_MOST_LETTERS = 400
_WIDTHS = ((1140, "broad"), (340, "narrow"))

Section = tuple[str, str, Html]
# Name, seconds, words.
_Row = tuple[str, float, str]


def heading(report: RunReport) -> Html:
    """How the run stands, in a few lines."""
    status, record = report.status, report.run.record
    words = status.status
    if status.status == "finished" and record.exit_code:
        words = "finished, but not as expected"
    look = "bad" if record.exit_code and words != status.status else _LOOKS.get(words, "bad")
    why = record.reason if status.owner is None and record.status != "running" else ""
    pairs = [
        ("epochs", _epochs(report)),
        ("started", record.created[:19].replace("T", " ") + " UTC"),
        ("took", span(sum(one.ended - one.started for one in report.history.invocations))),
        ("run", record.run_id),
        ("seed", str(report.job.seed) if report.job else ""),
        ("exit code", "" if record.exit_code is None else str(record.exit_code)),
        ("tags", " ".join(f"#{tag_}" for tag_ in status.tags)),
    ]
    state = tag("span", words, class_=f"pill {look}")
    parts = [tag("p", state, " ", tag("span", why, class_="why"))]
    if report.job and report.job.description:
        parts.append(tag("p", report.job.description))
    parts.append(facts((name, said) for name, said in pairs if said))
    parts += [tag("p", fault, class_="bad why") for fault in report.faults]
    parts.append(_commands(report.following))
    return joined(parts)


def sections(report: RunReport) -> Iterator[Section]:
    """Identity, title and content of each part that has any."""
    if report.expectations:
        yield "expectations", "Expectations", _expectations(report)
    yield "timeline", "Timeline", _timeline(report)
    yield "time", "Where the time went", _times(report)
    if report.job is not None:
        yield "tasks", "Tasks", tag("div", Html(svg(report.job)), class_="scroll", tabindex="0",
                                    role="group", aria_label="task graph")  # fmt: skip
    yield "checkpoint", "Checkpoints", stored_section(report.stored, report.history)
    if report.job is not None and report.job.params:
        pairs = ((name, _value(value)) for name, value in report.job.params)
        yield "params", "Parameters", facts(pairs)
    if report.ancestors or report.children:
        yield "lineage", "Lineage", _lineage(report)
    yield "environment", "Environment", facts(environment(report).items())
    if report.status.lines:
        yield "log", "Last lines of the log", tag("pre", "\n".join(report.status.lines))
    if report.spec:
        label = tag("summary", "The spec as it was run, everything filled in")
        yield "spec", "Spec", tag("details", label, tag("pre", tag("code", marked(report.spec))))


def environment(report: RunReport) -> dict[str, str]:
    """What the run was made with, by name."""
    record = report.run.record
    found = {name: _value(value) for name, value in record.environment.items()}
    found |= {"host": record.host, "file system": record.file_system}
    found |= {f"${name}": digest for name, digest in record.variables.items()}
    return {name: value for name, value in found.items() if value}


def _epochs(report: RunReport) -> str:
    status = report.status
    words = str(status.epoch) if status.epoch >= 0 else "none"
    words += f" of at most {status.total_epochs}" if status.total_epochs else ""
    return words + (f", saved up to {status.saved}" if status.saved >= 0 else ", none saved")


def _commands(commands: Iterable[str]) -> Html:
    lines = "\n".join(commands)
    return tag("div", tag("p", "Next:", class_="note"), tag("pre", lines)) if lines else Html("")


def _expectations(report: RunReport) -> Html:
    words = {
        True: ("✓ held", "good"),
        False: ("✗ not held", "bad"),
        None: ("not looked at", "note"),
    }
    rows = [
        (tag("code", one.words), tag("span", words[one.held][0], class_=words[one.held][1]))
        for one in report.expectations
    ]
    return table(("expected", "result"), rows)


def _timeline(report: RunReport) -> Html:
    history = report.history
    if not history.invocations:
        return tag("p", "The run has no events.", class_="note")
    counts = (len(history.invocations), len(history.epochs), len(history.saves))
    words = "{} processes, {} epochs, {} saves".format(*counts)
    drawings = [tag("div", timeline(history, width, words), class_=look) for width, look in _WIDTHS]
    rows = [_invocation(number_, one) for number_, one in enumerate(history.invocations, start=1)]
    head = ("process", "from", "epochs", "took", "how it ended")
    parts = [*drawings, legend(), table(head, rows[-_MOST_ROWS:])]
    if history.notices:
        items = (tag("li", one.words, class_="why") for one in history.notices[-_MOST_NOTICES:])
        parts.append(tag("h3", "To be noted"))
        parts.append(tag("ul", *items))
    return joined(parts)


def _invocation(number_: int, one: Invocation) -> tuple[str, ...]:
    begun = "new" if one.before < 0 else f"epoch {one.before}"
    if one.generation:
        begun += f", generation {one.generation}"
    ran = f"{max(0, one.before) + 1} to {one.epoch}" if one.epoch > max(0, one.before) else "none"
    look = _LOOKS.get(one.outcome, "bad")
    # Some reasons begin with what the word before them has just said.
    reason = one.reason.removeprefix(f"{one.outcome} ")
    outcome = joined((tag("strong", one.outcome, class_=look), text(f" {reason}")))
    return (str(number_), begun, ran, span(one.ended - one.started), outcome)


def _times(report: RunReport) -> Html:
    parts = []
    groups = [(name, seconds, "") for name, seconds in report.history.groups]
    several = len({one.node for one in report.history.tasks}) > 1
    tasks = [
        (f"{one.node}/{one.task}" if several else one.task, one.seconds, _runs(one))
        for one in report.history.tasks
    ]
    found = [("group", "Groups", groups), ("task", "Tasks", tasks)]
    for title, key, name in (("Steps", "steps", "path"), ("Operators", "operators", "label")):
        rows = _profile_rows(report.profile.get(key), name)
        found.append((key, f"{title}, each by itself", rows))
    for what, title, rows in found:
        if rows:
            parts += [tag("h3", title), _bars(what, rows)]
    if not report.profile:
        told = "Where in a task the time goes is measured by jobrun run --profile."
        parts.append(tag("p", told, class_="note"))
    return joined(parts)


def _runs(one: TaskTime) -> str:
    runs = "1 run" if one.runs == 1 else f"{one.runs} runs, longest {_brief(one.longest_s)}"
    return runs + (f", {one.failed} failed" if one.failed else "")


def _profile_rows(rows: Any, name: str) -> list[_Row]:
    """What the table of a profile says; nothing of what has another form."""
    if not isinstance(rows, list):
        return []
    found = []
    for row in rows:
        try:
            calls = "1 call" if row["calls"] == 1 else f"{row['calls']} calls"
            words = f"{row['label']}, {calls}" if name == "path" and row["label"] else calls
            found.append((str(row[name]) or "around steps", float(row["seconds"]), words))
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _bars(what: str, rows: list[_Row], most_rows: int = _MOST_BARS) -> Html:
    """Names, seconds, words, and a bar as long as the share; the longest first."""
    rows = sorted(rows, key=lambda row: -row[1])
    most = max((seconds for _, seconds, _ in rows), default=0.0) or 1.0
    items = (
        tag(
            "li",
            tag("code", name, class_="who"),
            tag("span", _brief(seconds), class_="number"),
            tag("span", words, class_="words"),
            _bar(seconds / most),
        )
        for name, seconds, words in rows[:most_rows]
    )
    drawn = tag("ol", *items, class_="bars", aria_label=f"time by {what}")
    more = len(rows) - most_rows
    return joined((drawn, tag("p", f"and {more} more", class_="note"))) if more > 0 else drawn


def _bar(share: float) -> Html:
    rect = tag("rect", width=f"{max(0.3, 100 * share):.1f}", height=12)
    return tag("svg", rect, viewBox="0 0 100 12", preserveAspectRatio="none", class_="bar",
               aria_hidden="true")  # fmt: skip


def _brief(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else span(seconds)


def _lineage(report: RunReport) -> Html:
    def words(link: Link) -> str:
        some = f", blobs {', '.join(link.blobs)}" if link.blobs else ""
        return f"{link.run}, epoch {link.epoch}{some}"

    parts = []
    if report.ancestors:
        parts += [
            tag("h3", "It began with"),
            tag("ol", *(tag("li", words(one)) for one in report.ancestors)),
        ]
    if report.children:
        items = (tag("li", f"{one.run}, from epoch {one.epoch}") for one in report.children)
        parts += [tag("h3", "Forked from it"), tag("ul", *items)]
    return joined(parts)


def _value(value: Any) -> str:
    """A value in words, cut where it is long."""
    if isinstance(value, list | tuple):
        words = ", ".join(map(_value, value[:_MOST_LETTERS]))
    else:
        words = number(value) if isinstance(value, float) else str(value)
    return words if len(words) <= _MOST_LETTERS else words[:_MOST_LETTERS] + "…"
