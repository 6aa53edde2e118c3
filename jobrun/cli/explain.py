"""``jobrun explain``: error codes, functions, and the language itself."""

from __future__ import annotations

import click

from jobrun.cli.ops import definitions, function_page
from jobrun.cli.options import Command, json_option
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.cli.topics import TOPICS, nearest_topic
from jobrun.core.codes import Code, catalogue
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean


@click.command("explain", cls=Command)
@click.argument("code", metavar="[CODE|NAME|TOPIC]", required=False)
@json_option
@click.pass_obj
def command(shell: Shell, code: str | None, as_json: bool) -> None:
    """Explain an error CODE such as E021, a function by its NAME, or a TOPIC.

    Topics are expressions, operators and checkpoint-format. Without an argument all codes are
    listed.
    """
    codes = catalogue()
    if code is not None and not as_json and (page := _other_page(code)) is not None:
        shell.print(page)
        return
    chosen = codes if code is None else _one(codes, code)
    if as_json:
        shell.print(document("codes", {"codes": [_entry(*item) for item in chosen.items()]}))
    elif code is None:
        shell.print("\n".join(f"{name}  {entry.title}" for name, entry in chosen.items()))
    else:
        for name, entry in chosen.items():
            shell.print(_page(name, entry))


def _other_page(given: str) -> str | None:
    """The page of a topic or a function; None when it is neither."""
    if given in TOPICS:
        return TOPICS[given]()
    known = definitions()
    return function_page(given, known[given]) if given in known else None


def _one(codes: dict[str, Code], given: str) -> dict[str, Code]:
    name = given.strip("[]").upper()
    if name not in codes:
        looks_like_code = name[:1] in ("E", "W") and name[1:].isdigit()
        mend = did_you_mean(name, codes) if looks_like_code else nearest_topic(given)
        raise UsageError.of("E405", f"no such code '{given}'", mend)
    return {name: codes[name]}


def _page(name: str, entry: Code) -> str:
    example = "\n".join(f"    {line}" for line in entry.example.splitlines())
    return f"{name}  {entry.title}\n\n{_wrapped(entry.explanation)}\n\nExample:\n{example}"


def _wrapped(text: str) -> str:
    return click.wrap_text(text, width=80, preserve_paragraphs=True)


def _entry(name: str, entry: Code) -> dict[str, str]:
    return {
        "code": name,
        "title": entry.title,
        "explanation": entry.explanation,
        "example": entry.example,
    }
