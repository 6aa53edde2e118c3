"""Render the whole manual as one HTML page: keys, functions, error codes, file format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.core.error_catalogue import Entry
from jobrun.ops.definition import DrawDef, OpDef
from jobrun.tools.manual.keys import Key, Table
from jobrun.tools.manual.markdown_pages import read_pages, render_as_html
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.report.page import document_page
from jobrun.tools.report.sections import Section
from jobrun.version import __version__

Functions = Mapping[str, OpDef | DrawDef]


def render_manual(
    keys: tuple[Table, ...],
    topics: Mapping[str, str],
    functions: Functions,
    codes: Mapping[str, Entry],
    made: str,
) -> str:
    """Render the whole manual as one HTML page.

    Args:
        keys: All tables of keys.
        topics: Texts by their names, shown as they are.
        functions: By the name in a spec.
        codes: By the code.
        made: When, in words.
    """
    parts: list[Section] = [
        *((one.name, one.title, Html(render_as_html(one.text))) for one in read_pages().values()),
        ("keys", "The spec: its keys", joined(_keys(one) for one in keys)),
        ("functions", "Functions and draws", _functions(functions)),
        *(
            (name, name.capitalize().replace("-", " "), _as_is(text))
            for name, text in topics.items()
        ),
        ("codes", "Errors and warnings", joined(_code(*item) for item in codes.items())),
    ]
    top = tag(
        "p",
        f"Language, functions, messages and file format of jobrun {__version__}, made from "
        "what the program itself goes by.",
        class_="note",
    )
    search = tag(
        "p",
        tag("label", "Search ", tag("input", type="search", id="search")),
        " ",
        tag("output", "", id="found"),
    )
    return document_page("jobrun", joined((top, search)), parts, made, Html(""), "search.js")


def _keys(one: Table) -> Html:
    head = tag("h3", tag("code", one.path) if one.path else "a spec file", id=_anchor(one.path))
    rows = ((tag("code", key.name), _kind(key), key.about) for key in one.keys)
    return joined((head, tag("p", one.about, class_="note"), table(("key", "value", ""), rows)))


def _kind(key: Key) -> Html:
    after = " (required)" if key.required else f", else {key.default}" if key.default else ""
    return joined((key.kind, after))


def _functions(functions: Functions) -> Html:
    rows = (
        (tag("code", f"{name}{one.signature}"), one.doc, tag("code", one.example))
        for name, one in functions.items()
    )
    return table(("function", "what it gives", "such as"), rows, class_="wide")


def _code(name: str, entry: Entry) -> Html:
    summary = tag("summary", tag("code", name), f"  {entry.title}")
    fix = f"Fix: {entry.fix}" if entry.fix else ""
    prose = (tag("p", *_inline(one)) for one in (*entry.explanation.split("\n\n"), fix) if one)
    example = tag("pre", entry.example) if entry.example else ""
    return tag("details", summary, *prose, example, id=name)


def _inline(text: str) -> Iterator[str]:
    """Yield the parts of a Markdown paragraph in the manual as HTML; text in backticks is code."""
    for place, piece in enumerate(text.split("`")):
        yield tag("code", piece) if place % 2 else piece


def _as_is(text: str) -> Html:
    return tag("pre", text)


def _anchor(path: str) -> str:
    return f"key-{path.replace('.', '-') or 'file'}"
