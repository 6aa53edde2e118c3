"""Render a report as a self-contained HTML document that permits no network access.

Its size is bounded: at most 120,000 points of curves (3 MB), 120 blobs with drawings of at most
160 by 160 items (6 MB), all runs together; and of each of at most 16 runs 200,000 letters of the
spec, 600 blobs in words, and 256 KiB of its log.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from jobrun.core.text.units import span
from jobrun.tools.inspection import Inspection
from jobrun.tools.report.blob_pictures import DrawnBlob
from jobrun.tools.report.charts import Charts, build_charts, chart_section, line_sample
from jobrun.tools.report.html import Html, data, joined, table, tag
from jobrun.tools.report.report_data import RunReport
from jobrun.tools.report.report_json import chart_values
from jobrun.tools.report.sections import Section, blob_cards, difference_sections, heading, sections
from jobrun.version import __version__

MOST_RUNS = 16
START = "<!doctype html>\n<!-- made by jobrun report -->\n"


def format_now() -> str:
    """Return the present time in UTC as text, for the last line of a report's page."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def render_page(reports: Sequence[RunReport], written_at: str) -> str:
    """Render the page of a report: one run, or the comparison of several.

    Args:
        reports: At least one, at most ``MOST_RUNS``.
        written_at: When, in words.
    """
    charts = build_charts(reports)
    names = [report.run.name for report in reports]
    curves = [("metrics", "Metrics and times", chart_section(charts, names))]
    if len(reports) == 1:
        title, top = names[0], heading(reports[0])
        parts: list[Section] = [*curves, *sections(reports[0])]
    else:
        title, top = f"{len(reports)} runs compared", summary(reports)
        parts = [*curves, *difference_sections(reports)]
        parts.append(
            ("runs", "The runs", joined(_run(n, report) for n, report in enumerate(reports)))
        )
    data_script = data("data", _chart_data(charts, names))
    return document_page(title, top, parts, written_at, data_script, "charts.js")


def render_checkpoint_page(
    inspection: Inspection, blobs: tuple[DrawnBlob, ...], written_at: str
) -> str:
    """Render the whole HTML page of a report about one checkpoint, around its cards of blobs."""
    folder = Path(inspection.path)
    run = folder.parent.parent
    in_run = folder.parent.name == "checkpoints"
    name = f"{run.parent.name}/{run.name} ({inspection.run_id})" if in_run else inspection.run_id
    top = tag("p", f"epoch {inspection.epoch} of run {name}, every byte verified")
    parts = [("blobs", "Blobs", blob_cards(blobs))]
    return document_page(
        f"Checkpoint of epoch {inspection.epoch}", top, parts, written_at, Html(""), ""
    )


def _chart_data(charts: Charts, names: list[str]) -> dict[str, object]:
    return {"runs": names, "charts": chart_values(charts)}


def _run(number: int, report: RunReport) -> Html:
    """Render one compared run on the report's page as a collapsed ``<details>`` element."""
    inside = [heading(report)]
    for _, title, content in sections(report):
        inside += [tag("h3", title), content]
    return tag(
        "details", tag("summary", report.run.name), *inside, class_="run", id=f"run-{number}"
    )


def document_page(
    title: str, top: Html, parts: Sequence[Section], written_at: str, data_script: Html, script: str
) -> str:
    """Assemble a page of the report, a self-contained HTML document, from title and sections.

    Args:
        title: Of the page, also at its top.
        top: The content below the title.
        parts: The sections; each gets a link at the top.
        written_at: When, in words.
        data_script: Values for the script.
        script: The name of its asset; empty for a page without one.
    """
    links = (tag("li", tag("a", name, href=f"#{identity}")) for identity, name, _ in parts)
    body = tag(
        "body",
        tag("a", "To the content", href="#main", class_="skip"),
        tag("header", tag("h1", title), top, tag("nav", tag("ul", *links), aria_label="parts")),
        tag("main", *(_part(*part) for part in parts), id="main"),
        tag("footer", f"Made by jobrun {__version__} at {written_at}."),
        data_script,
        tag("script", Html(_asset(script))) if script else Html(""),
    )
    return f'{START}<html lang="en">{_head(title, script)}{body}</html>\n'.encode(
        "utf-8", "backslashreplace"
    ).decode("utf-8")


def _part(identity: str, name: str, content: Html) -> Html:
    head = tag("h2", name, id=f"{identity}-title")
    return tag("section", head, content, id=identity, aria_labelledby=f"{identity}-title")


def _head(title: str, script: str) -> Html:
    style = _asset("report.css")
    allowed = _digest(_asset(script)) if script else "'none'"
    # Only what was put in here may run or style, by its digest: not what a name smuggles in.
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        # Written by hand: the name of this attribute has a dash, its value single quotes.
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="referrer", content="no-referrer"),
        # Else a browser asks for an icon.
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title} - jobrun"),
        tag("style", Html(style)),
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def summary(reports: Sequence[RunReport]) -> Html:
    """Render the table at the top of the report's HTML page: a row for each run compared."""
    rows = []
    for at, report in enumerate(reports):
        status = report.status
        took = sum(part.ended - part.started for part in report.history.invocations)
        name = tag("a", report.run.name, href=f"#run-{at}")
        epoch = str(status.epoch) if status.epoch >= 0 else "-"
        reason = report.run.record.reason if status.owner is None else ""
        reason += " (outdated)" if report.outdated else ""
        rows.append((line_sample(at), name, status.status, epoch, span(took), reason))
    return table(("line", "run", "status", "epoch", "took", "why it ended"), rows)
