"""Render the sections of a report as HTML: those about one run, and on how several runs differ."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.units import number, size, span
from jobrun.graph.drawing import svg
from jobrun.runner.identity.drift import Change
from jobrun.runner.identity.provenance import iter_code_rows
from jobrun.tools.diff import compare_records, compare_states
from jobrun.tools.inspection import dtype_name, value_text
from jobrun.tools.report.blob_pictures import DrawnBlob, Histogram, Picture, png
from jobrun.tools.report.charts import legend, line_sample, timeline
from jobrun.tools.report.html import Html, facts, joined, table, tag, text
from jobrun.tools.report.report_data import RunReport, Stored
from jobrun.tools.report.run_history import History, Invocation, Link, TaskTime

_LOOKS = {"finished": "good", "running": "good", "stopped": "warn", "interrupted": "warn"}
_MOST_ROWS = 25
_MOST_BARS = 14
_MOST_NOTICES = 30
_MOST_LETTERS = 400
_WIDTHS = ((1140, "broad"), (340, "narrow"))
Section = tuple[str, str, Html]
# Name, seconds, words.
_Row = tuple[str, float, str]
_MOST_SPEC_LETTERS = 200_000
_KEY = lazy_pattern(r"^(\s*(?:- +)*)([\w.$/{}-]+)(:)(?=\s|$)")
_PIECE = lazy_pattern(
    r"""(?P<s>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')"""
    r"|(?P<c>(?:(?<=\s)|^)\#.*$)"
    r"|(?P<n>(?<![\w.])-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?:ep|ms|s|m|h|d|[KMGT]iB)?(?![\w.]))"
)

_MOST_EPOCHS = 25
_MOST_CARDS = 600
# A picture is shown so large at least, so that single items can be seen.
_SIDE = 280


def heading(report: RunReport) -> Html:
    """Render the top section of a run's report: the run's status in a few lines."""
    status, record = report.status, report.run.record
    words = status.status
    if status.status == "finished" and record.exit_code:
        words = "finished, but an expectation does not hold"
    look = "bad" if record.exit_code and words != status.status else _LOOKS.get(words, "bad")
    why = record.reason if status.owner is None and record.status != "running" else ""
    pairs = [
        ("epochs", _epochs(report)),
        ("started", record.created[:19].replace("T", " ") + " UTC"),
        (
            "took",
            span(
                sum(
                    invocation.ended - invocation.started
                    for invocation in report.history.invocations
                )
            ),
        ),
        ("run", record.run_id),
        ("seed", str(report.job.seed) if report.job else ""),
        ("exit code", "" if record.exit_code is None else str(record.exit_code)),
        ("tags", " ".join(f"#{tag_}" for tag_ in status.tags)),
    ]
    state = tag("span", words, class_=f"pill {look}")
    parts = [tag("p", state, " ", tag("span", why, class_="why"))]
    if report.job and report.job.description:
        parts.append(tag("p", report.job.description))
    parts.append(facts((name, value) for name, value in pairs if value))
    parts += [tag("p", fault, class_="bad why") for fault in report.faults]
    if report.outdated:
        parts.append(tag("p", "Outdated, changed since it finished:", class_="bad"))
        parts.append(tag("ul", *(tag("li", change, class_="why") for change in report.outdated)))
    parts.append(_commands(report.following))
    return joined(parts)


def sections(report: RunReport) -> Iterator[Section]:
    """Yield identity, title and content of each section of a run's report that is not empty."""
    if report.expectations:
        yield "expectations", "Expectations", _expectations(report)
    yield "timeline", "Timeline", _timeline(report)
    yield "time", "Where the time went", _times(report)
    if report.status.usage.processes:
        yield "resources", "Resources", _resources(report)
    if report.job is not None:
        yield (
            "tasks",
            "Tasks",
            tag(
                "div",
                Html(svg(report.job)),
                class_="scroll",
                tabindex="0",
                role="group",
                aria_label="task graph",
            ),
        )
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
        yield (
            "spec",
            "Spec",
            tag("details", label, tag("pre", tag("code", highlight_spec(report.spec)))),
        )


def environment(report: RunReport) -> dict[str, str]:
    """Collect the names and values that a report's section on a run's environment shows."""
    record = report.run.record
    values = {name: _value(value) for name, value in record.environment.items()}
    values |= {"host": record.host, "file system": record.file_system}
    values |= {f"${name}": digest for name, digest in record.variables.items()}
    values |= dict(iter_code_rows(record))
    values |= {f"package {name}": version for name, version in record.packages.items()}
    return {name: value for name, value in values.items() if value}


def highlight_spec(spec: str) -> Html:
    """Highlight the YAML in the report's section about the spec; only the beginning if long."""
    cut = spec[:_MOST_SPEC_LETTERS]
    lines = [joined(_line(line)) for line in cut.split("\n")]
    if len(spec) > len(cut):
        lines.append(tag("span", f"… and {len(spec) - len(cut)} letters more", class_="yc"))
    return Html("\n".join(lines))


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
        (
            tag("code", expectation.words),
            tag("span", words[expectation.held][0], class_=words[expectation.held][1]),
        )
        for expectation in report.expectations
    ]
    return table(("expected", "result"), rows)


def _timeline(report: RunReport) -> Html:
    history = report.history
    if not history.invocations:
        return tag("p", "The run has no events.", class_="note")
    counts = (len(history.invocations), len(history.epochs), len(history.saves))
    words = "{} processes, {} epochs, {} saves".format(*counts)
    drawings = [tag("div", timeline(history, width, words), class_=look) for width, look in _WIDTHS]
    rows = [
        _invocation(number_, invocation)
        for number_, invocation in enumerate(history.invocations, start=1)
    ]
    head = ("process", "from", "epochs", "took", "how it ended")
    parts = [*drawings, legend(), table(head, rows[-_MOST_ROWS:])]
    if history.notices:
        items = (
            tag("li", notice.words, class_="why") for notice in history.notices[-_MOST_NOTICES:]
        )
        parts.append(tag("h3", "To be noted"))
        parts.append(tag("ul", *items))
    return joined(parts)


def _invocation(number_: int, invocation: Invocation) -> tuple[str, ...]:
    begun = "new" if invocation.before < 0 else f"epoch {invocation.before}"
    if invocation.generation:
        begun += f", generation {invocation.generation}"
    ran = (
        f"{max(0, invocation.before) + 1} to {invocation.epoch}"
        if invocation.epoch > max(0, invocation.before)
        else "none"
    )
    look = _LOOKS.get(invocation.outcome, "bad")
    # Some reasons begin with the outcome, which is shown before them.
    reason = invocation.reason.removeprefix(f"{invocation.outcome} ")
    outcome = joined((tag("strong", invocation.outcome, class_=look), text(f" {reason}")))
    return (str(number_), begun, ran, span(invocation.ended - invocation.started), outcome)


def _times(report: RunReport) -> Html:
    used = report.status.usage
    whole = used.times.total_s or 1.0
    rows = [(label, seconds, f"{seconds / whole:.0%}") for label, seconds in used.times.rows()]
    parts = [tag("p", used.advice, class_="why")] if used.advice else []
    groups = [(name, seconds, "") for name, seconds in report.history.groups]
    several = len({task.node for task in report.history.tasks}) > 1
    tasks = [
        (f"{task.node}/{task.task}" if several else task.task, task.seconds, _runs(task))
        for task in report.history.tasks
    ]
    starts = f", {used.starts} starts together" if used.starts > 1 else ""
    tables = [
        ("row", f"Wall time{starts}", rows),
        ("group", "Groups", groups),
        ("task", "Tasks", tasks),
    ]
    for title, key, name in (("Steps", "steps", "path"), ("Operators", "operators", "label")):
        rows = _profile_rows(report.profile.get(key), name)
        tables.append((key, f"{title}, each by itself", rows))
    for subject, title, rows in tables:
        if rows:
            parts += [tag("h3", title), _bars(subject, rows)]
    if not report.profile:
        hint = "Where in a task the time goes is measured by jobrun run --profile."
        parts.append(tag("p", hint, class_="note"))
    return joined(parts)


def _resources(report: RunReport) -> Html:
    """Render the report's section about resources: what each process of a run used."""
    head = ("process", "memory", "at most", "processor", "read", "written", "GPU", "at most")
    rows = [
        (
            process.node or "run",
            *map(size, (process.resident_bytes, process.peak_bytes)),
            span(process.cpu_s),
            *map(
                size,
                (
                    process.read_bytes,
                    process.written_bytes,
                    process.gpu_bytes,
                    process.gpu_peak_bytes,
                ),
            ),
        )
        for process in report.status.usage.processes[:_MOST_ROWS]
    ]
    return table(head, rows)


def _runs(task: TaskTime) -> str:
    runs = "1 run" if task.runs == 1 else f"{task.runs} runs, longest {_brief(task.longest_s)}"
    return runs + (f", {task.failed} failed" if task.failed else "")


def _profile_rows(rows: Any, name: str) -> list[_Row]:
    """Convert a profile's rows to rows of the report's section: name, seconds, calls."""
    if not isinstance(rows, list):
        return []
    section_rows = []
    for row in rows:
        try:
            calls = "1 call" if row["calls"] == 1 else f"{row['calls']} calls"
            words = f"{row['label']}, {calls}" if name == "path" and row["label"] else calls
            section_rows.append((str(row[name]) or "around steps", float(row["seconds"]), words))
        except (KeyError, TypeError, ValueError):
            continue
    return section_rows


def _bars(subject: str, rows: list[_Row], most_rows: int = _MOST_BARS) -> Html:
    """Render a report section's longest times as HTML: name, time and a bar in each row."""
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
    drawn = tag("ol", *items, class_="bars", aria_label=f"time by {subject}")
    more = len(rows) - most_rows
    return joined((drawn, tag("p", f"and {more} more", class_="note"))) if more > 0 else drawn


def _bar(share: float) -> Html:
    rect = tag("rect", width=f"{max(0.3, 100 * share):.1f}", height=12)
    return tag(
        "svg",
        rect,
        viewBox="0 0 100 12",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )


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
            tag("ol", *(tag("li", words(ancestor)) for ancestor in report.ancestors)),
        ]
    if report.children:
        items = (tag("li", f"{child.run}, from epoch {child.epoch}") for child in report.children)
        parts += [tag("h3", "Forked from it"), tag("ul", *items)]
    return joined(parts)


def _value(value: Any) -> str:
    """Render a value as text for a table in the report, and cut it if it is long."""
    if isinstance(value, list | tuple):
        words = ", ".join(map(_value, value[:_MOST_LETTERS]))
    else:
        words = number(value) if isinstance(value, float) else str(value)
    return words if len(words) <= _MOST_LETTERS else words[:_MOST_LETTERS] + "…"


def _line(line: str) -> Iterator[Html]:
    at = 0
    key = _KEY.match(line)
    if key:
        yield text(key[1])
        yield tag("span", key[2], class_="yk")
        at = key.start(3)
    for match in _PIECE.finditer(line, at):
        yield text(line[at : match.start()])
        yield tag("span", match[0], class_=f"y{match.lastgroup}")
        at = match.end()
    yield text(line[at:])


def stored_section(stored: Stored, history: History) -> Html:
    """Render the report's section about the checkpoints of a run."""
    parts = []
    if not stored.epochs:
        parts.append(tag("p", stored.fault or "There is no checkpoint.", class_="note"))
        return joined(parts)
    parts.append(_epochs_table(stored, history))
    if stored.fault:
        parts.append(tag("p", stored.fault, class_="bad why"))
    if stored.newest is not None:
        age = f"saved {span(stored.newest.age_s)} before this page was made, every byte verified"
        parts.append(tag("h3", f"The state after epoch {stored.newest.epoch}"))
        parts.append(tag("p", age, class_="note"))
        parts.append(blob_cards(stored.blobs))
    return joined(parts)


def blob_cards(blobs: tuple[DrawnBlob, ...]) -> Html:
    """Render a card for each blob in the checkpoints section, with its picture or histogram."""
    several = len({blob.node for blob in blobs}) > 1
    cards = (_card(blob, several=several) for blob in blobs[:_MOST_CARDS])
    drawn = tag("div", *cards, class_="blobs")
    more = len(blobs) - _MOST_CARDS
    return joined((drawn, tag("p", f"and {more} more blobs"))) if more > 0 else drawn


def _epochs_table(stored: Stored, history: History) -> Html:
    saves = {save.epoch: save for save in history.saves}
    shown = stored.epochs[-_MOST_EPOCHS:]
    rows = []
    for epoch in reversed(shown):
        save = saves.get(epoch)
        save_cells = (size(save.size_bytes), span(save.seconds)) if save else ("-", "-")
        rows.append((str(epoch), *save_cells, "yes" if epoch in stored.pinned else ""))
    more = len(stored.epochs) - len(shown)
    words = f"{len(stored.epochs)} epochs are stored, {stored.epochs[0]} to {stored.epochs[-1]}."
    words += f" The newest {len(shown)} are listed." if more else ""
    box = table(("epoch", "size", "saved in", "pinned"), rows)
    return joined((tag("p", words), tag("details", tag("summary", "List of epochs"), box)))


def _card(drawn: DrawnBlob, *, several: bool) -> Html:
    facts = drawn.facts
    name = f"{drawn.node}.{facts.name}" if several else facts.name
    kind = dtype_name(facts.dtype)
    if facts.kind != "array":
        kind = f"numpy {kind}" if facts.kind == "numpy" else facts.kind
    shape = " x ".join(map(str, facts.shape))
    words = ", ".join(filter(None, (kind, shape, size(facts.size_bytes))))
    parts = [tag("h4", name), tag("p", words, class_="note")]
    if not facts.shape:
        parts.append(tag("p", tag("code", _cut(value_text(facts.value)))))
    elif facts.minimum is not None and facts.mean is not None and facts.maximum is not None:
        extremes = (
            f"min {number(facts.minimum)}, mean {number(facts.mean)}, max {number(facts.maximum)}"
        )
        parts.append(tag("p", extremes))
    if facts.nans:
        parts.append(tag("p", f"{facts.nans} NaN", class_="bad"))
    if drawn.histogram is not None:
        parts.append(_histogram(drawn.histogram, name))
    if drawn.pictures:
        parts.append(
            tag("div", *(_picture(picture, name) for picture in drawn.pictures), class_="pictures")
        )
    return tag("section", *parts, class_="blob", aria_label=f"blob {name}")


def _histogram(histogram: Histogram, name: str) -> Html:
    most = max(histogram.counts)
    bars = _histogram_bars(histogram.counts, most)
    words = f"histogram of {name}: {len(histogram.counts)} bins, at most {most} in one"
    drawing = tag(
        "svg",
        *bars,
        viewBox=f"0 0 {len(histogram.counts) * 10} 100",
        preserveAspectRatio="none",
        class_="hist",
        role="img",
        aria_label=words,
    )
    of = f"{histogram.of}, " if histogram.of else ""
    sample = f"one of {histogram.step} values" if histogram.step > 1 else ""
    middle = f"{of}{sample}".strip(", ")
    labels = (number(histogram.low), middle, number(histogram.high))
    return joined((drawing, tag("div", *(tag("span", end) for end in labels), class_="ends")))


def _histogram_bars(counts: tuple[int, ...], most: int) -> Iterator[Html]:
    for at, count in enumerate(counts):
        if count:
            # Even a single value is visible.
            height = max(1.5, 100 * count / most)
            y = f"{100 - height:.1f}"
            yield tag("rect", x=at * 10, y=y, width=9, height=f"{height:.1f}")


def _picture(drawn: Picture, name: str) -> Html:
    height, width = drawn.shades.shape
    zoom = max(1, _SIDE // max(height, width))
    words = f"rows as {drawn.tile} x {drawn.tile}" if drawn.tile else "as a picture"
    if drawn.steps != (1, 1):
        words += f", one of {drawn.steps[0]} rows and of {drawn.steps[1]} columns"
    address = f"data:image/png;base64,{b64encode(png(drawn)).decode()}"
    image = tag("img", src=address, width=width * zoom, height=height * zoom, alt=f"{name} {words}")
    return tag("figure", image, tag("figcaption", words))


def _cut(words: str) -> str:
    return words if len(words) <= _MOST_LETTERS else words[:_MOST_LETTERS] + "…"


_MOST_CHANGES = 60


def difference_sections(reports: Sequence[RunReport]) -> Iterator[Section]:
    """Yield the sections of a report on how several runs differ: metrics, params, state."""
    lasts = [
        {name: number(value) for name, value in report.metrics_last.items()} for report in reports
    ]
    if any(lasts):
        yield "last", "Last values", _side_by_side("metric", reports, lasts, all_rows=True)
    params = [dict(_params(report)) for report in reports]
    yield "params", "Parameters that differ", _side_by_side("parameter", reports, params)
    environments = [environment(report) for report in reports]
    yield "environment", "Environment that differs", _side_by_side("what", reports, environments)
    parts = [_against(reports[0], other, at) for at, other in enumerate(reports[1:], start=1)]
    yield "differences", "Against the first run", joined(parts)


def _params(report: RunReport) -> Iterator[tuple[str, str]]:
    for name, value in report.job.params if report.job else ():
        yield name, number(value) if isinstance(value, float) else str(value)


def _side_by_side(
    subject: str,
    reports: Sequence[RunReport],
    columns: Sequence[dict[str, str]],
    *,
    all_rows: bool = False,
) -> Html:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, "-") for column in columns]) for name in names]
    shown = [(name, values) for name, values in rows if all_rows or len(set(values)) > 1]
    if not shown:
        return tag("p", "All runs are alike in this.", class_="note")
    heads = [tag("th", subject, scope="col")]
    heads += [
        tag("th", line_sample(at), _short(report), scope="col") for at, report in enumerate(reports)
    ]
    lines = (tag("tr", *(tag("td", cell) for cell in (name, *values))) for name, values in shown)
    inside = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    return tag("div", inside, class_="scroll", tabindex="0", role="group", aria_label=f"{subject}s")


def _short(report: RunReport) -> str:
    return report.run.path.name.split("-", 2)[-1]


def _against(first: RunReport, other: RunReport, at: int) -> Html:
    parts = [tag("h3", line_sample(at), other.run.name)]
    try:
        changes = _changes(first, other)
    except JobrunError as error:
        parts.append(tag("p", f"The specs cannot be compared: {error.faults[0].message}"))
        changes = ()
    if changes:
        rows = (
            (tag("code", change.field), change.before or "-", change.after or "-")
            for change in changes
        )
        parts.append(table(("spec, code or data", "first run", "this run"), rows))
    else:
        parts.append(tag("p", "The same spec and code. The same data.", class_="note"))
    return joined([*parts, *_state(first, other)])


def _changes(first: RunReport, other: RunReport) -> tuple[Change, ...]:
    difference = compare_records(first.run, other.run)
    return (*difference.spec, *difference.code, *difference.data)[:_MOST_CHANGES]


def _state(first: RunReport, other: RunReport) -> Iterable[Html]:
    first_state, second_state = first.stored.newest, other.stored.newest
    if first_state is None or second_state is None:
        return
    differences = compare_states(first_state, second_state)
    rows: list[tuple[Any, ...]] = []
    for blob in differences:
        difference = blob.apart
        if not difference.equal:
            largest = "-" if difference.largest is None else number(difference.largest)
            relative = "-" if difference.relative is None else f"{difference.relative:.2e}"
            count = difference.words or f"{difference.count} of {difference.size}"
            rows.append((f"{blob.node}.{blob.name}", count, largest, relative))
    words = (
        f"State after epoch {first_state.epoch} of the first and {second_state.epoch} of this run: "
    )
    alike = len(differences) - len(rows)
    yield tag(
        "p", words + f"{alike} of {len(differences)} blobs have the same bits.", class_="note"
    )
    if rows:
        yield table(("blob", "differ", "largest difference", "relative norm"), rows[:_MOST_CHANGES])
