"""Render the manual's reference pages from the tables that the program goes by: ``make manual``.

They lie in ``jobrun/manual/reference``, to be read where the repository is browsed; the same is
rendered by ``jobrun explain`` from the same tables.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator

import jobrun
from jobrun.cli.app import group
from jobrun.cli.specs.explain import iter_command_help
from jobrun.cli.specs.ops import list_definitions
from jobrun.core.error_catalogue import read_catalogue
from jobrun.tools.manual import FOLDER
from jobrun.tools.spec_key_tables import Table, list_key_tables

REFERENCE = FOLDER / "reference"


def render_reference() -> dict[str, str]:
    """Render all reference pages, by the names of their files."""
    return {
        "keys.md": "\n".join(_keys()),
        "functions.md": "\n".join(_functions()),
        "commands.md": "\n".join(_commands()),
        "codes.md": "\n".join(_codes()),
        "python.md": "\n".join(_python()),
    }


def _keys() -> Iterator[str]:
    yield "# The keys of a spec\n"
    yield "`jobrun explain KEY` shows one. A value may always be a reference such as `${k}`.\n"
    for table in list_key_tables():
        yield f"## {f'`{table.path}`' if table.path else 'A spec file'}\n"
        yield f"{table.about}\n"
        yield from _rows(table)


def _rows(table: Table) -> Iterator[str]:
    yield "| key | value | |"
    yield "|---|---|---|"
    for key in table.keys:
        more = " (required)" if key.required else f", else `{key.default}`" if key.default else ""
        yield f"| `{key.name}` | {_cell(key.kind)}{more} | {_cell(key.about)} |"
    yield ""


def _functions() -> Iterator[str]:
    yield "# Functions of expressions, and draws\n"
    yield "`jobrun ops NAME` shows one with its parameters.\n"
    yield "| function | what it gives | such as |"
    yield "|---|---|---|"
    for name, function in list_definitions().items():
        call, example = _cell(f"{name}{function.signature}"), _cell(function.example)
        yield f"| `{call}` | {_cell(function.doc)} | `{example}` |"
    yield ""


def _commands() -> Iterator[str]:
    yield "# Commands and their options\n"
    for path, text in iter_command_help(group):
        yield f"## {path}\n"
        yield f"```text\n{text}\n```\n"


def _codes() -> Iterator[str]:
    yield "# Errors and warnings, by their codes\n"
    yield "`jobrun explain CODE` shows one.\n"
    for name, entry in read_catalogue().items():
        yield f"## {name}: {entry.title}\n"
        yield f"{entry.explanation}\n"
        if entry.fix:
            yield f"Fix: {entry.fix}\n"
        if entry.example:
            yield f"```text\n{entry.example}\n```\n"


def _python() -> Iterator[str]:
    yield "# The Python interface\n"
    yield "[From Python and notebooks](../python.md) shows how it is used.\n"
    for name in jobrun.__all__:
        public = getattr(jobrun, name)
        if not callable(public):
            continue
        text = inspect.getdoc(public)
        yield f"## `jobrun.{name}`\n"
        yield f"```text\n{_call(name, public)}\n\n{text}\n```\n"


def _call(name: str, public: Callable[..., object]) -> str:
    """Render how a function or class is called: its parameters, with defaults that are short."""
    parts = []
    is_keyword = False
    for parameter in inspect.signature(public).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        shown = repr(parameter.default)
        shown = "…" if len(shown) > 12 or "<" in shown else shown
        parts.append(
            parameter.name + (f"={shown}" if parameter.default is not parameter.empty else "")
        )
    return "\n".join(textwrap.wrap(f"{name}({', '.join(parts)})", 78, subsequent_indent="    "))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write all reference pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in render_reference().items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    main()
