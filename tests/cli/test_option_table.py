"""One option means one thing in all commands: its letter, whether it has a value, and which."""

from __future__ import annotations

from collections import defaultdict

import click
import pytest

from jobrun.cli.app import group
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell


def _commands(command, context, path):
    yield path, command
    for name in getattr(command, "list_commands", lambda _: ())(context):
        below = command.get_command(context, name)
        inner = click.Context(below, context, name, obj=Shell({}))
        yield from _commands(below, inner, f"{path} {name}".strip())


COMMANDS = dict(_commands(group, click.Context(group, info_name="jobrun", obj=Shell({})), ""))
# What two commands call the same and mean otherwise, with why it stays so.
DIFFERENT = {
    ("--blob", "ckpt export"),  # a pattern of several; inspect-checkpoint shows one blob
    ("--values", "inspect-checkpoint"),  # shows values; elsewhere a file of values
    ("--status", "sweep"),  # there is nothing to choose between: it shows all points
    ("--format", "graph"),
    ("--format", "ckpt export"),
}
# The letter of an option, wherever it has one.
LETTERS = {
    "--jobs": "-j", "--out": "-o", "--set": "-s", "--watch": "-w", "--quiet": "-q",
    "--verbose": "-v", "--yes": "-y", "--lines": "-n",
}  # fmt: skip


def _options():
    for path, command in COMMANDS.items():
        for param in command.params:
            if isinstance(param, click.Option):
                yield path, param


def _long(param):
    return next(name for name in param.opts if name.startswith("--"))


def test_an_option_of_several_commands_is_the_same_in_each():
    paths_by_option = defaultdict(lambda: defaultdict(list))
    for path, param in _options():
        if (_long(param), path) not in DIFFERENT:
            kind = param.is_flag, param.multiple, param.metavar
            letters = tuple(name for name in param.opts if not name.startswith("--"))
            paths_by_option[_long(param)][letters, kind].append(path)

    assert {name: dict(kinds) for name, kinds in paths_by_option.items() if len(kinds) > 1} == {}


def test_differences_that_are_allowed_are_there():
    there = {(_long(param), path) for path, param in _options()}
    assert sorted(DIFFERENT - there) == []


@pytest.mark.parametrize("name", LETTERS)
def test_an_option_has_its_letter_everywhere(name):
    missing = [
        path
        for path, param in _options()
        if _long(param) == name and LETTERS[name] not in param.opts
    ]
    assert missing == []


def test_a_variable_sets_one_option():
    variables = defaultdict(set)
    for path, param in _options():
        if param.envvar and (_long(param), path) not in DIFFERENT:
            variables[param.envvar].add(_long(param))

    assert {name: options for name, options in variables.items() if len(options) > 1} == {}


def test_check_ends_with_8_in_each_command_that_has_it():
    having = {path for path, param in _options() if _long(param) == "--check"}
    assert having == {"fmt", "lock", "diff", "ckpt diff"}
    for path in having:
        (option,) = (p for q, p in _options() if q == path and _long(p) == "--check")
        assert "with 8" in option.help


def test_commands_that_print_csv_or_github_print_json_too():
    for path, command in COMMANDS.items():
        names = {name for param in command.params for name in param.opts}
        forms = [p.type.choices for p in command.params if "--format" in p.opts]
        if "--csv" in names or any("json" in choices for choices in forms):
            assert "--json" in names, path


def test_a_file_to_write_is_named_by_out():
    others = {
        (path, _long(param))
        for path, param in _options()
        if param.metavar == "FILE" and (param.help or "").startswith("Write")
        and _long(param) not in {"--out", "--junit"}
    }  # fmt: skip
    assert others == set()


def test_help_of_a_command_is_shown_by_help(capsys):
    for words, usage in [
        (["help", "run"], "Usage: jobrun run "),
        (["help", "ckpt", "list"], "Usage: jobrun ckpt list "),
        (["help"], "Usage: jobrun [OPTIONS]"),
    ]:
        assert invoke(words) == 0
        assert capsys.readouterr().out.startswith(usage)
    assert invoke(["help", "rnu"]) == 2
    assert "did you mean 'run'?" in capsys.readouterr().err


def test_json_is_short_for_its_format(tmp_path, capsys):
    spec = tmp_path / "x.yaml"
    spec.write_text("jobrun: 1\n")

    assert invoke(["validate", str(spec), "--json"]) == 3
    first = capsys.readouterr().out
    assert invoke(["validate", str(spec), "--format", "json"]) == 3
    assert capsys.readouterr().out == first
    assert invoke(["validate", str(spec), "--json", "--format", "github"]) == 2
