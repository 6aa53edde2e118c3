"""One HTML document that needs nothing else: no network, no other file, no right but to show.

Its size is bounded: at most 120,000 points of curves (3 MB), 120 blobs with drawings of at most
160 by 160 items (6 MB), all runs together; and of each of at most 16 runs 200,000 letters of the
spec, 600 blobs in words, and 256 KiB of its log.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from jobrun.tools.inspection import Inspection
from jobrun.tools.report.blobs import Drawn
from jobrun.tools.report.comparison import difference_sections, summary
from jobrun.tools.report.curves import Charts, chart_values, charts_of
from jobrun.tools.report.data import RunReport
from jobrun.tools.report.figures import chart_section
from jobrun.tools.report.html import Html, data, joined, tag
from jobrun.tools.report.sections import Section, heading, sections
from jobrun.tools.report.state import blob_cards
from jobrun.version import __version__

MOST_RUNS = 16
START = "<!doctype html>\n<!-- made by jobrun report -->\n"


def page(reports: Sequence[RunReport], made: str) -> str:
    """The report of a run, or the comparison of several.

    Args:
        reports: At least one, at most ``MOST_RUNS``.
        made: When, in words.
    """
    charts = charts_of(reports)
    names = [one.run.name for one in reports]
    curves = [("metrics", "Metrics and times", chart_section(charts, names))]
    if len(reports) == 1:
        title, top = names[0], heading(reports[0])
        parts: list[Section] = [*curves, *sections(reports[0])]
    else:
        title, top = f"{len(reports)} runs compared", summary(reports)
        parts = [*curves, *difference_sections(reports)]
        parts.append(("runs", "The runs", joined(_run(n, one) for n, one in enumerate(reports))))
    return document_page(title, top, parts, made, data("data", _chart_data(charts, names)))


def checkpoint_page(found: Inspection, blobs: tuple[Drawn, ...], made: str) -> str:
    """One checkpoint with its blobs."""
    top = tag("p", f"epoch {found.epoch} of run {found.run_id}, every byte verified")
    parts = [("blobs", "Blobs", blob_cards(blobs))]
    return document_page(f"Checkpoint of epoch {found.epoch}", top, parts, made, Html(""))


def _chart_data(charts: Charts, names: list[str]) -> dict[str, object]:
    return {"runs": names, "charts": chart_values(charts)}


def _run(number: int, report: RunReport) -> Html:
    """One run of a comparison, closed until somebody wants it."""
    inside = [heading(report)]
    for _, title, content in sections(report):
        inside += [tag("h3", title), content]
    return tag(
        "details", tag("summary", report.run.name), *inside, class_="run", id=f"run-{number}"
    )


def document_page(title: str, top: Html, parts: Sequence[Section], made: str, held: Html) -> str:
    """A whole page.

    Args:
        title: Of the page, also at its top.
        top: What stands under it.
        parts: The sections; each gets a link at the top.
        made: When, in words.
        held: Values for the script of curves; without them there is no script.
    """
    links = (tag("li", tag("a", name, href=f"#{identity}")) for identity, name, _ in parts)
    body = tag(
        "body",
        tag("a", "To the content", href="#main", class_="skip"),
        tag("header", tag("h1", title), top, tag("nav", tag("ul", *links), aria_label="parts")),
        tag("main", *(_part(*one) for one in parts), id="main"),
        tag("footer", f"Made by jobrun {__version__} at {made}."),
        held,
        tag("script", Html(_asset("charts.js"))) if held else Html(""),
    )
    return f'{START}<html lang="en">{_head(title)}{body}</html>\n'.encode(
        "utf-8", "backslashreplace"
    ).decode("utf-8")


def _part(identity: str, name: str, content: Html) -> Html:
    head = tag("h2", name, id=f"{identity}-title")
    return tag("section", head, content, id=identity, aria_labelledby=f"{identity}-title")


def _head(title: str) -> Html:
    style, script = _asset("report.css"), _asset("charts.js")
    # Only what was put in here may run or style, by its digest: not what a name smuggles in.
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
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
