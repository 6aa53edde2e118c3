"""What ``jobrun explain`` says of the keys of a spec, as text for a terminal."""

from __future__ import annotations

import textwrap
from functools import cache

from jobrun.tools.manual.keys import Key, Table, find, tables

_WIDTH = 80


@cache
def key_tables() -> tuple[Table, ...]:
    """All tables of keys."""
    # Builds all models of the spec: not for those who ask about something else.
    from jobrun.spec.schema import schema  # noqa: PLC0415

    return tables(schema())


def key_page(given: str) -> str | None:
    """The page of a key, or of a path such as ``checkpoint.keep``; None if it is none."""
    found = find(key_tables(), given)
    return "\n\n".join(map(_page, found)) if found else None


def _page(one: Table) -> str:
    about = one.about.partition("\n")[0]
    lines = [*textwrap.wrap(f"{one.path or 'a spec file'}: {about}", _WIDTH), ""]
    width = max(len(key.name) for key in one.keys)
    for key in one.keys:
        lines += _key(key, width)
    return "\n".join(lines)


def _key(key: Key, width: int) -> list[str]:
    extra = "required" if key.required else f"else {key.default}" if key.default else ""
    kind = ", ".join(filter(None, (key.kind, extra)))
    said = f"{kind}: {key.about}" if key.about else kind
    indent = " " * (width + 4)
    return textwrap.wrap(
        said, _WIDTH, initial_indent=f"  {key.name:<{width}}  ", subsequent_indent=indent
    )
