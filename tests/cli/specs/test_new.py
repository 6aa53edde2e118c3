"""``jobrun new``: what is listed and written, and that nothing is replaced."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.completion_candidates import TEMPLATE
from jobrun.cli.run_command import invoke
from jobrun.tools.templates import TEMPLATES, template_text


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [["new"], ["new", "--list"]])
def test_without_a_name_each_template_has_a_line(here, capsys, words):
    assert invoke(words) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TEMPLATES)
    assert invoke([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["templates"][0]["name"] == "script"
    assert not list(here.iterdir())


def test_a_list_is_not_asked_for_together_with_a_template(here, capsys):
    assert invoke(["new", "script", "--list"]) == 2
    assert "E404" in capsys.readouterr().err
    assert not list(here.iterdir())


def test_a_template_is_written_and_the_next_command_is_shown(here, capsys):
    assert invoke(["new", "sgd", "a/b"]) == 0
    assert (here / "a/b/sgd.yaml").read_text() == template_text("sgd")
    assert capsys.readouterr().err.endswith("next: jobrun run a/b/sgd.yaml\n")


def test_every_file_that_is_written_is_named(here, capsys):
    assert invoke(["new", "csv", "a"]) == 0
    assert {path.name for path in (here / "a").iterdir()} == {
        "csv.yaml", "csv_fit.py", "measurements.csv",
    }  # fmt: skip
    assert "wrote a/csv.yaml, a/csv_fit.py, a/measurements.csv: " in capsys.readouterr().err


def test_files_that_a_template_needs_are_written_with_it(here):
    assert invoke(["new", "torch"]) == 0
    assert "import torch" in (here / "torch_spirals.py").read_text()


@pytest.mark.parametrize(
    ("template", "missing", "command"),
    [
        ("torch", "torch", "pip install 'jobrun[torch]'\n"),
        ("sklearn", "sklearn", "pip install scikit-learn\n"),
        ("jax", "jax", "pip install jax\n"),
        ("jax", "numpy", ""),
    ],
)
def test_a_package_that_is_missing_is_named(here, monkeypatch, capsys, template, missing, command):
    monkeypatch.setattr("jobrun.cli.specs.new.find_spec", lambda name: name != missing or None)

    assert invoke(["new", template]) == 0
    err = capsys.readouterr().err
    assert command in err
    assert ("pip install" in err) is bool(command)


def test_a_file_beside_it_that_is_there_stays_and_nothing_is_written(here, capsys):
    (here / "torch_spirals.py").write_text("mine")

    assert invoke(["new", "torch"]) == 2
    assert "torch_spirals.py already exists" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["torch_spirals.py"]


def test_a_file_that_is_there_stays(here, capsys):
    (here / "em.yaml").write_text("mine")

    assert invoke(["new", "em"]) == 2
    assert "E434" in capsys.readouterr().err
    assert (here / "em.yaml").read_text() == "mine"


def test_a_name_that_is_none_gets_the_nearest(capsys):
    assert invoke(["new", "kmean"]) == 2
    assert "did you mean 'kmeans'?" in capsys.readouterr().err


def test_a_shell_completes_their_names():
    completed = TEMPLATE.shell_complete(None, None, "s")
    assert [item.value for item in completed] == ["script", "sklearn", "shell", "sgd", "solver"]
