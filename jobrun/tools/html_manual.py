"""Render the whole manual as one HTML page: keys, functions, error codes, file format."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping

from jobrun.core.error_catalogue import Entry
from jobrun.core.text.patterns import lazy_pattern
from jobrun.ops.definition import DrawDef, OpDef
from jobrun.tools.manual import FOLDER, LINK, read_pages
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.report.page import document_page
from jobrun.tools.report.sections import Section
from jobrun.tools.spec_key_tables import Key, Table
from jobrun.version import __version__

_SCROLLED = '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>'
_IMAGE = lazy_pattern(r'<img src="pictures/([a-z-]+\.svg)"')

Functions = Mapping[str, OpDef | DrawDef]


def render_manual(
    keys: tuple[Table, ...],
    topics: Mapping[str, str],
    functions: Functions,
    codes: Mapping[str, Entry],
    written_at: str,
) -> str:
    """Render the whole manual as one HTML page.

    Args:
        keys: All tables of keys.
        topics: Texts by their names, shown as they are.
        functions: By the name in a spec.
        codes: By the code.
        written_at: When, in words.
    """
    parts: list[Section] = [
        *(
            (page.name, page.title, Html(render_as_html(page.text)))
            for page in read_pages().values()
        ),
        ("keys", "The spec: its keys", joined(_keys(key_table) for key_table in keys)),
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
    return document_page("jobrun", joined((top, search)), parts, written_at, Html(""), "search.js")


def render_as_html(text: str) -> str:
    """Convert the Markdown of one page of the manual to HTML, without its title.

    HTML inside the Markdown is escaped; pictures become parts of the page.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only for the page

    body = LINK.sub(r"[\1](#\2)", text.partition("\n")[2])
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(body)
    for token in tokens:
        if token.tag == "h2":
            # The title of the page is one there.
            token.tag = "h3"
    rendered = str(parser.renderer.render(tokens, parser.options, {}))
    rendered = _IMAGE.sub(_embed_picture, rendered)
    # A narrow screen scrolls a table, not the page.
    return rendered.replace("<table>", _SCROLLED).replace("</table>", "</table></div>")


def _embed_picture(image: re.Match[str]) -> str:
    """Build an ``<img>`` element with an embedded picture for the manual's Markdown page."""
    data = b64encode((FOLDER / "pictures" / image[1]).read_bytes()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}"'


def _keys(key_table: Table) -> Html:
    head = tag(
        "h3",
        tag("code", key_table.path) if key_table.path else "a spec file",
        id=_anchor(key_table.path),
    )
    rows = ((tag("code", key.name), _kind(key), key.about) for key in key_table.keys)
    return joined(
        (head, tag("p", key_table.about, class_="note"), table(("key", "value", ""), rows))
    )


def _kind(key: Key) -> Html:
    after = " (required)" if key.required else f", else {key.default}" if key.default else ""
    return joined((key.kind, after))


def _functions(functions: Functions) -> Html:
    rows = (
        (tag("code", f"{name}{function.signature}"), function.doc, tag("code", function.example))
        for name, function in functions.items()
    )
    return table(("function", "what it gives", "such as"), rows, class_="wide")


def _code(name: str, entry: Entry) -> Html:
    summary = tag("summary", tag("code", name), f"  {entry.title}")
    fix = f"Fix: {entry.fix}" if entry.fix else ""
    prose = (
        tag("p", *_inline(paragraph))
        for paragraph in (*entry.explanation.split("\n\n"), fix)
        if paragraph
    )
    example = tag("pre", entry.example) if entry.example else ""
    return tag("details", summary, *prose, example, id=name)


def _inline(text: str) -> Iterator[str]:
    """Yield a Markdown paragraph of the manual as HTML pieces: text, and code in backticks."""
    for number, piece in enumerate(text.split("`")):
        yield tag("code", piece) if number % 2 else piece


def _as_is(text: str) -> Html:
    return tag("pre", text)


def _anchor(path: str) -> str:
    return f"key-{path.replace('.', '-') or 'file'}"
