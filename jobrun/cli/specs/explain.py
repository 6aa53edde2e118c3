"""Implement ``jobrun explain``: print pages about error codes, functions, keys and topics."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from jobrun.cli.completion_candidates import CompletedText
from jobrun.cli.formatting import render_json_document
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.specs.ops import list_definitions, render_function
from jobrun.cli.terminal import Shell
from jobrun.core.error_catalogue import Entry, read_catalogue
from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.text.names import did_you_mean
from jobrun.ops.operator_table import installed_operators
from jobrun.tools.manual import (
    TOPICS,
    list_pages,
    list_topics,
    read_pages,
    render_for_terminal,
    suggest_topic,
)
from jobrun.tools.spec_key_tables import list_key_tables, render_key_page

_ALL_CODES = "codes"
_COMMANDS = "commands"
_WIDEST = 100
_HELP_WIDTH = 80
# Other names under which people look for a page.
_ALIASES = {
    "submit": "batch", "slurm": "batch", "ray": "nodes", "s3": "object-stores",
    "tensorboard": "listeners", "mlflow": "listeners", "wandb": "listeners",
    "notify": "notifications", "jupyter": "python", "pytorch": "objects", "cuda": "gpu",
}  # fmt: skip
_GENERATED = {
    "steps": "The forms of steps",
    "expressions": "What may be written in expressions",
    "rng": "Random numbers, and what can be drawn",
    "operators": "Operators, and what Caffe2 called them",
    "checkpoint-format": "The checkpoint file, byte by byte",
    _COMMANDS: "All commands with their options",
    _ALL_CODES: "All codes of errors and warnings",
}

TOPIC = CompletedText("topic", lambda _ctx, _word: ((name, "") for name in list_topics()))


@click.command("explain", cls=Command)
@click.argument("code", type=TOPIC, metavar="[TOPIC|CODE|KEY|NAME]", required=False)
@option(
    "-o",
    "--out",
    "--html",
    "out",
    metavar="FILE",
    default="",
    help="Write the whole manual as one page (HTML); '-' is stdout.",
)
@json_option
@click.pass_obj
def command(shell: Shell, code: str | None, out: str, as_json: bool) -> None:
    r"""Show a TOPIC of the manual, an error CODE, a KEY of a spec, or a function by its NAME.

    Without one the topics are listed; 'jobrun explain codes' lists all codes.

    \b
    Examples:
      jobrun explain tutorial
      jobrun explain E021
      jobrun explain checkpoint.keep
    """
    if out:
        if code is not None or as_json:
            raise UsageError.of(
                "E404", "--out writes the whole manual", "remove the other arguments"
            )
        _write_manual(out, shell)
        return
    if code is None and not as_json:
        shell.print_text(_contents())
        return
    code = None if code == _ALL_CODES else code
    codes = read_catalogue()
    if code is not None and not as_json and (page := _other_page(code)) is not None:
        shell.print_text(page)
        return
    chosen = codes if code is None else _one(codes, code)
    if as_json:
        shell.print_text(
            render_json_document("codes", {"codes": [_entry(*item) for item in chosen.items()]})
        )
    elif code is None:
        shell.print(*(f"{name}  {entry.title}" for name, entry in chosen.items()))
    else:
        for name, entry in chosen.items():
            shell.print_text(_page(name, entry))


def _other_page(word: str) -> str | None:
    """Render what ``jobrun explain`` prints for a word that is no error code; None if unknown."""
    if word == _COMMANDS:
        return render_command_help(_root())
    if word in TOPICS:
        return TOPICS[word]()
    if word.strip("[]").upper() in read_catalogue():
        return None
    pages = []
    if (page := read_pages().get(_ALIASES.get(word, word))) is not None:
        pages.append(
            render_for_terminal(
                page.text, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)
            )
        )
    definition = list_definitions().get(word) or installed_operators().get(word)
    if definition is not None:
        pages.append(render_function(word, definition))
    if keys := render_key_page(word):
        pages.append(keys)
    return "\n\n".join(pages) or _help_of(word)


def _help_of(word: str) -> str | None:
    """Render the help of a command, if ``jobrun explain`` is asked for one; else None."""
    help_by_command = dict(iter_command_help(_root()))
    return help_by_command.get(f"jobrun {word}")


def _root() -> click.Group:
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)  # noqa: S101 - explain is one of its commands
    return root


def iter_command_help(root: click.Group) -> Iterator[tuple[str, str]]:
    """Yield each command, such as ``jobrun ckpt list``, and its help, for ``jobrun explain``.

    Args:
        root: Of all commands.
    """
    # With the group's own settings, so that its -h is shown, no matter what ran before.
    settings = {**root.context_settings, "max_content_width": _HELP_WIDTH}
    context = click.Context(root, info_name="jobrun", **settings)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _help(command, f"jobrun {name}", context)


def render_command_help(root: click.Group) -> str:
    """Render the help of all commands, a topic of the manual, as one text."""
    pages = (f"{path}\n\n{text}" for path, text in iter_command_help(root))
    return "\n\n\n".join(("Commands and their options", *pages))


def _help(command: click.Command, path: str, parent: click.Context) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        max_content_width=_HELP_WIDTH,
        terminal_width=_HELP_WIDTH,
    )
    yield path, command.get_help(context).strip()
    for name, part in getattr(command, "commands", {}).items():
        yield from _help(part, f"{path} {name}", context)


def _contents() -> str:
    """Render the contents that ``jobrun explain`` prints without a TOPIC: pages and topics."""
    generated = "\n".join(f"  {name:<17}  {about}" for name, about in _GENERATED.items())
    return f"{list_pages()}\n{generated}"


def _write_manual(path: str, shell: Shell) -> None:
    from jobrun.tools.html_manual import render_manual  # noqa: PLC0415 - brings numpy in

    topics = {
        _COMMANDS: render_command_help(_root()),
        **{name: text() for name, text in TOPICS.items()},
    }
    written_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    text = render_manual(
        list_key_tables(), topics, list_definitions(), read_catalogue(), written_at
    )
    if path == "-":
        shell.print_text(text.rstrip("\n"))
        return
    with disk_faults("E354", f"write {path}"):
        write_file(Path(path), text.encode())
    shell.say(f"wrote {path}")


def _one(codes: dict[str, Entry], code: str) -> dict[str, Entry]:
    name = code.strip("[]").upper()
    if name not in codes:
        looks_like_code = name[:1] in ("E", "W") and name[1:].isdigit()
        mend = did_you_mean(name, codes) if looks_like_code else suggest_topic(code)
        raise UsageError.of("E405", f"unknown code '{code}'", mend)
    return {name: codes[name]}


def _page(name: str, entry: Entry) -> str:
    parts = [f"{name}  {entry.title}", _wrapped(entry.explanation)]
    if entry.fix:
        parts.append(_wrapped(f"Fix: {entry.fix}"))
    if entry.example:
        parts.append("Example:\n" + textwrap.indent(entry.example, "    "))
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return click.wrap_text(text, width=80, preserve_paragraphs=True)


def _entry(name: str, entry: Entry) -> dict[str, str]:
    return {
        "code": name,
        "title": entry.title,
        "explanation": entry.explanation,
        "fix": entry.fix,
        "example": entry.example,
    }
