"""The manual as one HTML page that needs nothing else: keys, functions, errors, the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobrun.core.codes import Code
from jobrun.ops.table import DrawDef, OpDef
from jobrun.tools.manual.keys import Key, Table
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.report.page import document_page
from jobrun.tools.report.sections import Section
from jobrun.version import __version__

Functions = Mapping[str, OpDef | DrawDef]


def manual_page(
    keys: tuple[Table, ...],
    topics: Mapping[str, str],
    functions: Functions,
    codes: Mapping[str, Code],
    made: str,
) -> str:
    """The page.

    Args:
        keys: All tables of keys.
        topics: Texts by their names, shown as they are.
        functions: By the name in a spec.
        codes: By the code.
        made: When, in words.
    """
    parts: list[Section] = [
        ("keys", "The spec: its keys", joined(_keys(one) for one in keys)),
        ("functions", "Functions and draws", _functions(functions)),
        *(
            (name, name.capitalize().replace("-", " "), _as_is(text))
            for name, text in topics.items()
        ),
        ("codes", "Errors and warnings", joined(_code(*item) for item in codes.items())),
    ]
    top = tag(
        "p", f"Language, functions, messages and file format of jobrun {__version__}, made from "
        "what the program itself goes by.", class_="note",
    )  # fmt: skip
    return document_page("jobrun", top, parts, made, Html(""))


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


def _code(name: str, entry: Code) -> Html:
    summary = tag("summary", tag("code", name), f"  {entry.title}")
    inside: Iterable[str] = (summary, tag("p", entry.explanation), tag("pre", entry.example))
    return tag("details", *inside, id=name)


def _as_is(text: str) -> Html:
    return tag("pre", text)


def _anchor(path: str) -> str:
    return f"key-{path.replace('.', '-') or 'file'}"
