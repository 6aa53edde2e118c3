"""``jobrun explain``: error codes, functions, keys of a spec, and the language itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from jobrun.cli.keys import key_page, key_tables
from jobrun.cli.ops import definitions, function_page
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.cli.topics import TOPICS, nearest_topic
from jobrun.core.codes import Code, catalogue
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean
from jobrun.runner.durable import disk_faults, write_whole


@click.command("explain", cls=Command)
@click.argument("code", metavar="[CODE|KEY|NAME|TOPIC]", required=False)
@option("--html", metavar="FILE", default="", help="Write all of it as one page; '-' is stdout.")
@json_option
@click.pass_obj
def command(shell: Shell, code: str | None, html: str, as_json: bool) -> None:
    r"""Explain an error CODE, a KEY of a spec, a function by its NAME, or a TOPIC.

    Topics are expressions, operators, objects, checkpoint-format and submit. Without one all codes
    are listed.

    \b
    Examples:
      jobrun explain E021
      jobrun explain checkpoint.keep
    """
    if html:
        if code is not None or as_json:
            raise UsageError.of("E404", "--html is about everything", "leave the rest out")
        _write_manual(html, shell)
        return
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
    """The page of a topic, a function, a key; of a word that is two of them, both."""
    if given in TOPICS:
        return TOPICS[given]()
    if given.strip("[]").upper() in catalogue():
        return None
    known = definitions()
    pages = [function_page(given, known[given])] if given in known else []
    keys = key_page(given)
    return "\n\n".join((*pages, keys) if keys else pages) or None


def _write_manual(path: str, shell: Shell) -> None:
    from jobrun.tools.manual.page import manual_page  # noqa: PLC0415 - brings numpy in

    topics = {name: text() for name, text in TOPICS.items()}
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    text = manual_page(key_tables(), topics, definitions(), catalogue(), made)
    if path == "-":
        shell.print(text.rstrip("\n"))
        return
    with disk_faults(f"write {path}"):
        write_whole(Path(path), text.encode())
    shell.say(f"wrote {path}")


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
