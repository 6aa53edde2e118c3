"""The table of commands."""

from __future__ import annotations

from importlib import import_module

import pytest

from jobrun.cli.app import COMMANDS
from jobrun.cli.groups import SubcommandGroup
from jobrun.cli.invoke import invoke
from jobrun.cli.options import Command


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_of_the_table_is_there_under_its_name(name):
    module, line = COMMANDS[name]
    command = import_module(module).command
    assert isinstance(command, Command | SubcommandGroup)
    assert command.name == name
    assert line.endswith(".")


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
        == "error[E400] no such command 'rnu'\n      = did you mean 'run'?\n"
    )
