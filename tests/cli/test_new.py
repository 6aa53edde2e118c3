"""``jobrun new``: what is listed and written, and that nothing is replaced."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.completing import TEMPLATE
from jobrun.cli.invoke import invoke
from jobrun.tools.templates import TEMPLATES, text_of


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_name_each_template_has_a_line(capsys):
    assert invoke(["new"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TEMPLATES)
    assert invoke(["new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["templates"][0]["name"] == "kmeans"


def test_a_template_is_written_and_the_next_command_is_said(here, capsys):
    assert invoke(["new", "sgd", "a/b"]) == 0
    assert (here / "a/b/sgd.yaml").read_text() == text_of("sgd")
    assert capsys.readouterr().err.endswith("next: jobrun run a/b/sgd.yaml\n")


def test_what_a_template_needs_stands_beside_it(here):
    assert invoke(["new", "torch"]) == 0
    assert "import torch" in (here / "torch_spirals.py").read_text()


@pytest.mark.parametrize(("package", "is_said"), [("torch", True), ("numpy", False)])
def test_a_package_that_is_missing_is_said(here, monkeypatch, capsys, package, is_said):
    monkeypatch.setattr("jobrun.cli.new.find_spec", lambda name: name != package or None)

    assert invoke(["new", "torch"]) == 0
    assert ("pip install 'jobrun[torch]'" in capsys.readouterr().err) is is_said


def test_a_file_beside_it_that_is_there_stays_and_nothing_is_written(here, capsys):
    (here / "torch_spirals.py").write_text("mine")

    assert invoke(["new", "torch"]) == 2
    assert "torch_spirals.py is there already" in capsys.readouterr().err
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
    found = TEMPLATE.shell_complete(None, None, "s")
    assert [item.value for item in found] == ["sgd", "solver", "shell"]
