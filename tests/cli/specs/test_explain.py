"""``jobrun explain``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.error_catalogue import read_catalogue


def test_all_codes_are_listed(capsys):
    assert invoke(["explain", "codes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{code}  {entry.title}" for code, entry in read_catalogue().items()]


def test_without_a_topic_all_topics_are_listed_and_each_is_one(capsys):
    assert invoke(["explain"]) == 0
    listed = capsys.readouterr().out.splitlines()
    topics = [line.split()[0] for line in listed if line.startswith("  ")]
    assert {"tutorial", "killed", "steps", "checkpoint-format", "codes"} < {*topics}
    for topic in topics:
        assert invoke(["explain", topic]) == 0, topic


def test_a_step_is_explained_with_all_its_keys(capsys):
    assert invoke(["explain", "run"]) == 0
    assert "state_dir" in capsys.readouterr().out
    assert invoke(["explain", "steps"]) == 0
    assert "  sleep  " in capsys.readouterr().out


def test_a_word_that_is_a_page_and_a_key_is_explained_as_both(capsys):
    assert invoke(["explain", "nodes"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Several nodes, processes, machines\n")
    assert "\nnodes: " in shown


def test_a_code_is_explained_with_its_example(capsys):
    assert invoke(["explain", "e400"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("E400  unknown command\n")
    assert "    jobrun rnu kmeans.yaml\n" in out


def test_an_unknown_code_is_a_usage_error(capsys):
    assert invoke(["explain", "E4000"]) == 2
    assert "unknown code 'E4000'" in capsys.readouterr().err


def test_the_catalogue_is_there_as_json(capsys):
    assert invoke(["explain", "E400", "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.codes/1"
    assert [entry["code"] for entry in parsed["codes"]] == ["E400"]


def test_a_function_and_a_topic_are_explained(capsys):
    assert invoke(["explain", "svd"]) == 0
    assert "full_matrices: bool" in capsys.readouterr().out
    assert invoke(["explain", "operators"]) == 0
    assert "CountDown" in capsys.readouterr().out
    assert invoke(["explain", "expressoins"]) == 2
    assert "did you mean 'expressions'?" in capsys.readouterr().err


def test_a_key_is_explained_in_every_table_that_has_it(capsys):
    assert invoke(["explain", "state_dir"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("steps.run: A shell command.\n")
    assert "state_dir  name or mapping: a directory of the program" in out


def test_a_word_that_is_a_function_and_a_step_is_explained_as_both(capsys):
    assert invoke(["explain", "log"]) == 0
    out = capsys.readouterr().out
    assert "natural logarithm" in out
    assert "steps.log: A line for the reader of the run" in out


def test_a_word_that_is_nearly_a_key_gets_the_key(capsys):
    assert invoke(["explain", "chekpoint"]) == 2
    assert "did you mean 'checkpoint'?" in capsys.readouterr().err


def test_all_commands_are_explained_with_their_options(capsys):
    assert invoke(["explain", "commands"]) == 0

    output = capsys.readouterr().out
    assert "jobrun ckpt verify\n" in output
    assert "--accept-drift FIELD" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("command", ["resume", "ckpt verify"])
def test_a_command_is_explained_by_its_help(command, capsys):
    assert invoke(["explain", command]) == 0

    assert capsys.readouterr().out.startswith(f"Usage: jobrun {command} ")


def test_the_list_of_pages_fits_a_screen(capsys):
    assert invoke(["explain"]) == 0

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_all_of_it_is_one_page(tmp_path, capsys):
    assert invoke(["explain", "--html", str(tmp_path / "manual.html")]) == 0
    text = (tmp_path / "manual.html").read_text()
    assert "E021" in text
    assert "user block" in text
    assert "jobrun ckpt verify" in text
    assert "Accept a change of FIELD" in text
    assert invoke(["explain", "E021", "--out", "x.html"]) == 2
    assert "--out writes the whole manual" in capsys.readouterr().err
