from __future__ import annotations

from jobrun.cli.process.run_command import invoke


def test_without_a_name_the_default_command_is_meant(tmp_path, capsys):
    assert invoke(["runs", "--run-dir", str(tmp_path)]) == 0

    assert "no runs in" in capsys.readouterr().err


def test_the_help_lists_the_commands_in_their_order(capsys):
    assert invoke(["runs", "--help"]) == 0

    said = capsys.readouterr().out
    places = [said.index(f"  {name} ") for name in ("list", "tag", "remove", "path")]
    assert places == sorted(places)


def test_an_unknown_option_has_a_suggestion(capsys):
    assert invoke(["runs", "list", "--limt", "3"]) == 2

    assert "did you mean '--limit'" in capsys.readouterr().err
