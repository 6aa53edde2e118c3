"""Read the pages of the manual, the Markdown files in ``jobrun/manual``, and render them."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.patterns import lazy_pattern

FOLDER = Path(__file__).parent.parent.parent / "manual"
# Pages by what a reader wants, in the order of reading.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("tutorial",),
    "How to": (
        "runs", "killed", "drift", "batch", "nodes", "gpu", "object-stores", "ci", "python",
        "sweeps", "notifications", "listeners", "moving-a-run", "prove", "plug-ins",
    ),
    "Understand": ("exactness", "saving", "data", "objects", "adapters", "other-tools"),
    "Reference": ("exit-codes",),
}  # fmt: skip
_SCROLLED = '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>'
_PICTURE = lazy_pattern(r"!\[([^\]]+)\]\(pictures/([a-z-]+\.svg)\)")
_IMAGE = lazy_pattern(r'<img src="pictures/([a-z-]+\.svg)"')
_LINK = lazy_pattern(r"\[([^\]]+)\]\(([a-z][a-z-]*)\.md\)")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the manual.

    Attributes:
        name: As in ``jobrun explain NAME``.
        title: Its first line.
        text: All of it, as Markdown.
    """

    name: str
    title: str
    text: str


@cache
def read_pages() -> Mapping[str, Page]:
    """Read all pages of the manual by their names, in the order of reading.

    Raises:
        FileNotFoundError: A page is missing: the package is not installed as a whole.
    """
    found = {}
    for names in SECTIONS.values():
        for name in names:
            text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
            found[name] = Page(name, text.partition("\n")[0].removeprefix("# "), text)
    return found


def render_for_terminal(text: str, width: int) -> str:
    """Render a Markdown page of the manual as plain text, with links as commands to type.

    Args:
        text: As Markdown.
        width: In columns.
    """
    # Take tens of milliseconds, for pages alone.
    from rich.console import Console  # noqa: PLC0415
    from rich.markdown import Markdown  # noqa: PLC0415

    title, _, rest = text.partition("\n")
    # It can be seen in the page only (``jobrun explain --out``).
    body = _LINK.sub(r"\1 (`jobrun explain \2`)", _PICTURE.sub(r"\n> Picture: \1\n", rest))
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(Markdown(body, hyperlinks=False))
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    whole = "\n".join((title.removeprefix("# "), "", *lines))
    return re.sub(r"\n{3,}", "\n\n", whole).rstrip()


def render_as_html(text: str) -> str:
    """Convert the Markdown of one page of the manual to HTML, without its title.

    HTML inside the Markdown is escaped; pictures become parts of the page.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only for the page

    body = _LINK.sub(r"[\1](#\2)", text.partition("\n")[2])
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


def list_pages() -> str:
    """List the manual's Markdown pages by section, one line of name and title for each."""
    pages = read_pages()
    width = max(map(len, pages))
    return "\n\n".join(
        "\n".join((title, *(f"  {name:<{width}}  {pages[name].title}" for name in names)))
        for title, names in SECTIONS.items()
    )
