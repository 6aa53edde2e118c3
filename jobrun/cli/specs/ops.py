"""Implement ``jobrun ops``: print the functions of expressions and the methods of ``rng``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from jobrun.cli.formatting import render_json_document, wrap_rows
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.ops.definition import DrawDef, OpDef
from jobrun.ops.operator_table import DRAWS, OPERATORS, installed_operators
from jobrun.ops.unsupported_functions import LEFT_OUT

Definition = OpDef | DrawDef


@click.command("ops", cls=Command)
@click.argument("name", required=False)
@option(
    "--left-out",
    is_flag=True,
    help="List the functions of numpy that are not supported, with reasons.",
)
@json_option
@click.pass_obj
def command(shell: Shell, name: str | None, left_out: bool, as_json: bool) -> None:
    r"""List the functions that expressions can use, or show one of them by NAME.

    Those that installed packages add come last.

    \b
    Examples:
      jobrun ops
      jobrun ops segment_sum
    """
    if left_out:
        _show_left_out(shell, as_json=as_json)
        return
    known = {**list_definitions(), **installed_operators()}
    chosen = known if name is None else _one(known, name)
    if as_json:
        functions = [_values(*item) for item in chosen.items()]
        shell.print_text(render_json_document("ops", {"functions": functions}))
    elif name is None:
        rows = [(key, definition.doc) for key, definition in chosen.items()]
        shell.print(*_render_table(rows, shell.result_width))
    else:
        for key, definition in chosen.items():
            shell.print_text(render_function(key, definition))


def _show_left_out(shell: Shell, *, as_json: bool) -> None:
    if as_json:
        items = [{"name": name, "reason": reason} for name, reason in LEFT_OUT.items()]
        shell.print_text(render_json_document("ops", {"left_out": items}))
        return
    shell.print(*_render_table(sorted(LEFT_OUT.items()), shell.result_width))


def _render_table(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Render the table of ``jobrun ops`` as lines: functions beside wrapped descriptions."""
    return wrap_rows(rows, width)


def list_definitions() -> dict[str, Definition]:
    """List what ``jobrun ops`` shows: functions of expressions, and methods of ``rng``."""
    return dict(sorted(OPERATORS.items())) | {
        f"rng.{name}": draw for name, draw in sorted(DRAWS.items())
    }


def _one(known: Mapping[str, Definition], name: str) -> dict[str, Definition]:
    if name not in known:
        from jobrun.tools.manual import counterpart  # noqa: PLC0415 - with the tables of all keys

        mend = counterpart(name) or did_you_mean(name, known)
        raise UsageError.of("E409", f"unknown function '{name}'", mend)
    return {name: known[name]}


def render_function(name: str, definition: Definition) -> str:
    """Render what ``jobrun ops`` shows of a function: signature, example, peculiarities."""
    prefix = name.removesuffix(definition.name)
    lines = [
        f"{prefix}{definition.name}{definition.signature}",
        f"  {definition.doc}",
        f"  such as: {definition.example}",
    ]
    lines.append(f"  takes {definition.typed_signature}")
    if isinstance(definition, OpDef):
        lines += [f"  {note}" for note in _notes(definition)]
    return "\n".join(lines)


def _notes(definition: OpDef) -> list[str]:
    notes = [] if definition.rule is None else ["its dtype and shape are checked before the run"]
    if definition.mutates:
        changed = ", ".join(
            definition.parameters.parameter(position) for position in definition.mutates
        )
        notes.append(f"changes {changed} in place")
    if definition.atomic:
        notes.append("atomic: safe to call from concurrent tasks")
    if not definition.deterministic:
        notes.append("not deterministic: equal arguments can give different bits")
    return notes


def _values(name: str, definition: Definition) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": name,
        "signature": definition.signature,
        "doc": definition.doc,
        "example": definition.example,
        "typed_signature": definition.typed_signature,
        "has_rule": definition.rule is not None,
    }
    if isinstance(definition, OpDef):
        content |= {
            "results": definition.results,
            "mutates": list(definition.mutates),
            "atomic": definition.atomic,
            "deterministic": definition.deterministic,
        }
    return content
