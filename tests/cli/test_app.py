"""The table of commands."""

from __future__ import annotations

import re
from importlib import import_module

import click
import pytest

from jobrun.cli.app import _OTHER_NAMES, COMMANDS, SubcommandGroup, group
from jobrun.cli.options import Command
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from tests.support.command import ROOT
from tests.support.tables import each_case


@each_case("name", COMMANDS)
def test_a_command_of_the_table_is_called_by_its_name_and_described_by_a_sentence(name):
    module, line = COMMANDS[name]
    command = import_module(module).command
    assert isinstance(command, Command | SubcommandGroup)
    assert command.name == name
    assert line.endswith(".")


def test_each_module_with_a_command_is_in_the_table():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "jobrun" / "cli").rglob("*.py")
        if re.search(r"^command = |^def command\(", path.read_text(), re.MULTILINE)
    }

    assert len(modules) > 20
    assert modules - {module for module, _ in COMMANDS.values()} == set()


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands_and_the_exit_codes(arguments, capsys):
    assert invoke(arguments) == 0
    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []
    assert "stopped early, resume continues" in out
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_that_fits(name, capsys):
    assert invoke([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: jobrun {name} ")
    assert "--debug" in out


def test_an_unknown_command_names_the_nearest(capsys):
    assert invoke(["rnu", "x.yaml"]) == 2
    assert (
        capsys.readouterr().err
        == "error[E400] unknown command 'rnu'\n      = did you mean 'run'?\n"
    )


@each_case(
    ("words", "mend"),
    [
        (["walk.yaml"], "did you mean 'jobrun run walk.yaml'?"),
        (["list"], "did you mean 'jobrun runs'?"),
        (["ls"], "did you mean 'jobrun runs'?"),
        (["kill", "walk"], "did you mean 'jobrun stop'?"),
        (["runs", "rm", "walk"], "did you mean 'jobrun runs remove'?"),
        (["frobnicate"], "'jobrun --help' lists the commands"),
    ],
)
def test_a_word_of_another_program_is_answered_with_the_command(words, mend, capsys):
    assert invoke(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error[E400] unknown command")
    assert errors.endswith(f"      = {mend}\n")


def test_a_job_called_as_another_programs_command_is_listed(capsys, tmp_path):
    assert invoke(["runs", "--run-dir", str(tmp_path), "rm"]) == 2
    assert "no run of 'rm'" in capsys.readouterr().err


def test_each_other_name_leads_to_a_command():
    words = {command_line.partition(" ")[0] for command_line in _OTHER_NAMES.values()}
    assert words <= {*COMMANDS, "--version"}
    assert not COMMANDS.keys() & _OTHER_NAMES.keys()


def _commands(command, context, path):
    yield " ".join(path), command, context
    for name in getattr(command, "list_commands", lambda _: ())(context):
        below = command.get_command(context, name)
        yield from _commands(
            below, click.Context(below, context, name, obj=Shell({})), [*path, name]
        )


ALL = list(_commands(group, click.Context(group, info_name="jobrun", obj=Shell({})), ["jobrun"]))


@each_case(("name", "command", "context"), ALL)
def test_each_help_fits_a_screen_and_shows_two_examples(name, command, context):
    context.terminal_width = 80
    lines = command.get_help(context).splitlines()

    # That of the program itself has a line for each command, and the exit codes.
    assert len(lines) <= (64 if name == "jobrun" else 40)
    assert max(map(len, lines)) <= 80
    assert sum(line.strip().startswith("jobrun ") for line in lines) >= 2


def test_without_a_name_the_default_command_is_meant(tmp_path, capsys):
    assert invoke(["runs", "--run-dir", str(tmp_path)]) == 0

    assert "no runs in" in capsys.readouterr().err


def test_the_help_lists_the_commands_in_their_order(capsys):
    assert invoke(["runs", "--help"]) == 0

    output = capsys.readouterr().out
    positions = [output.index(f"  {name} ") for name in ("list", "tag", "remove", "path")]
    assert positions == sorted(positions)


def test_an_unknown_option_has_a_suggestion(capsys):
    assert invoke(["runs", "list", "--limt", "3"]) == 2

    assert "did you mean '--limit'" in capsys.readouterr().err
