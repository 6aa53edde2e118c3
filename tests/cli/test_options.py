"""The options that commands share."""

from __future__ import annotations

import click
import pytest

from jobrun.cli.app import COMMANDS, CommandGroup
from jobrun.cli.options import Command, option, override_texts, prepare, value_options
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.core.errors import SpecError
from tests.support.tables import each_case
from tests.support.walk_spec import SPEC


def test_an_unknown_option_names_the_nearest(capsys):
    assert invoke(["explain", "--jsn"]) == 2
    errors = capsys.readouterr().err
    assert errors == (
        "error[E401] 'jobrun explain' has no option '--jsn'\n      = did you mean '--json'?\n"
    )


@each_case(
    ("words", "mend"),
    [
        (["--goal", "9"], "a param or key of the spec is set with --set goal=VALUE"),
        (["--seed", "9"], "a param or key of the spec is set with --set seed=VALUE"),
        (["goal=9"], "a param or key of the spec is set with --set NAME=VALUE"),
        (["--epochs", "three"], "see 'jobrun run --help'"),
    ],
)
def test_a_param_without_set_is_answered_with_the_line_to_write(words, mend, capsys):
    assert invoke(["run", "walk.yaml", *words]) == 2
    assert mend in capsys.readouterr().err


def test_a_text_in_place_of_a_number_is_called_that(capsys):
    assert invoke(["run", "walk.yaml", "--epochs", "three"]) == 2
    assert "'three' is not a whole number" in capsys.readouterr().err


@each_case("name", COMMANDS)
def test_every_option_is_an_environment_variable_too(name):
    command = CommandGroup("jobrun").get_command(click.Context(Command("x")), name)
    assert command is not None
    parts = getattr(command, "commands", {}).values()
    without = [
        param.name
        for each in (command, *parts)
        for param in each.params
        if isinstance(param, click.Option)
        and not str(param.envvar).startswith("JOBRUN_")
        and "--help" not in param.opts
    ]
    assert without == []


@click.command("probe", cls=Command)
@option("--many-words", type=int)
@value_options
@click.pass_obj
def probe(shell: Shell, many_words: int, values: tuple[str, ...], overrides: tuple[str, ...]):
    shell.print(f"{many_words} {values} {overrides} {shell.debug}")


def _probe(*arguments: str) -> None:
    with probe.make_context("probe", list(arguments), obj=Shell({})) as context:
        probe.invoke(context)


def test_variables_of_a_steps_program_are_no_options():
    variables = {"EPOCH", "INSTANCE", "INSTANCES", "NODE", "RUN_PATH", "SEED", "TASK"}
    group = CommandGroup("jobrun")
    taken = {
        str(param.envvar).removeprefix("JOBRUN_")
        for name in COMMANDS
        for param in getattr(group.get_command(click.Context(Command("x")), name), "params", ())
    }
    assert variables & taken == set()


def test_variables_give_what_options_give(monkeypatch, capsys):
    monkeypatch.setenv("JOBRUN_MANY_WORDS", "3")
    monkeypatch.setenv("JOBRUN_SET", "params.text=two words\nparams.k=2")
    monkeypatch.setenv("JOBRUN_VALUES", "a b.yaml")
    monkeypatch.setenv("JOBRUN_DEBUG", "1")
    _probe()
    expected = "3 ('a b.yaml',) ('params.text=two words', 'params.k=2') True\n"
    assert capsys.readouterr().out == expected


def test_an_option_wins_over_its_variable(monkeypatch, capsys):
    monkeypatch.setenv("JOBRUN_MANY_WORDS", "3")
    _probe("--many-words", "4")
    assert capsys.readouterr().out == "4 () () False\n"


def test_an_option_without_its_value_leads_to_the_help_of_its_command(capsys):
    assert invoke(["ckpt", "export", "walk", "--out"]) == 2
    assert "see 'jobrun ckpt export --help'" in capsys.readouterr().err


def test_a_mistyped_choice_names_the_nearest(capsys):
    assert invoke(["runs", "list", "--status", "finishd"]) == 2
    assert "did you mean 'finished'?" in capsys.readouterr().err


def test_a_spec_becomes_a_job(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC)
    prepared = prepare(str(tmp_path / "walk.yaml"), (), ("params.rate=0.125",))
    assert prepared.job.name == "walk"
    assert dict(prepared.job.params)["rate"] == 0.125
    assert prepared.warnings == ()


def test_what_does_not_compile_is_a_spec_error(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC.replace("total + sum(x)", "total + sum(y)"))
    with pytest.raises(SpecError, match="'y'"):
        prepare(str(tmp_path / "walk.yaml"))


def test_options_are_found_by_the_name_that_places_give_them():
    assert override_texts(["a=1", "b=2"]) == {"--set #1": "a=1", "--set #2": "b=2"}
