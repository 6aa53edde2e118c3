"""Each block of the manual and of the README is what it says, and each link leads somewhere."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys

import click
import pytest

from jobrun.cli.app import COMMANDS, group
from jobrun.cli.terminal import Shell
from jobrun.compile.job import compile_job
from jobrun.core.errors import JobrunError
from jobrun.spec.load import load_spec
from jobrun.tools.manual.markdown_pages import (
    SECTIONS,
    iter_blocks,
    render_as_html,
    render_for_terminal,
)
from tests.support.command import ROOT, environment
from tests.support.drawing import differs
from tests.support.manual_blocks import PAGES, TEXTS, blocks, mark, play, whole_spec
from tests.support.manual_pictures import DRAWN, PICTURES
from tests.support.manual_reference import REFERENCE, render_reference

# A library that no test needs otherwise; the block is one call of ``adapt``.
_NOT_HERE = ("filterpy",)


def test_every_page_is_listed_once():
    listed = [name for names in SECTIONS.values() for name in names]

    assert sorted(listed) == sorted(PAGES)


def test_every_link_leads_to_a_file():
    links = [
        (name, link)
        for name, text in TEXTS.items()
        for link in re.findall(r"\]\(([^)#:]+)\)", text)
    ]
    base = dict.fromkeys(PAGES, ROOT / "jobrun" / "manual") | {"README": ROOT}

    assert len(links) > 20
    assert [one for one in links if not (base[one[0]] / one[1]).is_file()] == []


def test_every_block_of_yaml_is_a_spec_or_a_part_of_one_that_compiles(tmp_path):
    count = 0
    for name, block in blocks():
        if block.language == "yaml":
            path = tmp_path / "page.yaml"
            path.write_text(whole_spec(block))
            try:
                compile_job(load_spec(str(path)))
            except JobrunError as error:
                raise AssertionError((name, block.text, error.faults)) from error
            count += 1
    assert count > 10


def test_every_block_of_python_is_python():
    found = [(name, block) for name, block in blocks() if block.language == "python"]

    assert len(found) > 3
    for _, block in found:
        ast.parse(block.text)


def test_every_block_of_shell_is_parsed_by_bash():
    found = [(name, one.text) for name, one in blocks() if one.language in {"bash", "sh"}]

    assert len(found) > 20
    for name, text in found:
        done = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.long
@pytest.mark.parametrize("name", ["adapters", "gpu"])
def test_the_blocks_of_python_without_a_command_run(name, tmp_path):
    ran = 0
    for block in iter_blocks(PAGES[name]):
        file = mark(block, "file")
        if file:
            (tmp_path / file).write_text(block.text)
        elif block.language == "python" and not any(one in block.text for one in _NOT_HERE):
            is_test = "class Test" in block.text
            (tmp_path / "test_block.py").write_text(block.text)
            how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else []
            done = subprocess.run(
                [sys.executable, *how, "test_block.py"],
                cwd=tmp_path, env=environment(), text=True, capture_output=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert not is_test or " passed" in done.stdout
            ran += 1
    assert ran == 1


def _command_lines():
    for name, block in blocks():
        if block.language in {"bash", "sh", "console"}:
            for line in block.text.splitlines():
                shown = line.removeprefix("$ ").partition(" #")[0].partition(" && ")[0]
                if shown.startswith("jobrun "):
                    yield name, shlex.split(shown)[1:]


def _parse(words):
    """Parse a command line as the program does, down to its subcommand, and execute nothing."""
    context = click.Context(group, info_name="jobrun", obj=Shell({}))
    command: click.Command = group
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, list(words))
        assert found is not None, words
        command, context = found, found.make_context(name, rest, parent=context)
        words = [*context._protected_args, *context.args]


def test_every_command_line_that_is_shown_is_one():
    lines = [*_command_lines()]

    assert len(lines) > 30
    for name, words in lines:
        _parse(words)
        context = group.make_context("jobrun", list(words), obj=Shell({}), resilient_parsing=True)
        command = group.get_command(context, words[0])
        assert command is not None, (name, words)
        parts = getattr(command, "commands", {})
        known = {
            one
            for part in (command, *parts.values())
            for param in part.params
            for one in (*param.opts, *param.secondary_opts)
        }
        unknown = [one for one in words if one.startswith("-") and one not in known]
        assert unknown == [], (name, words)


def test_every_command_in_the_prose_exists():
    for name, text in TEXTS.items():
        used = set(re.findall(r"`jobrun ([a-z][a-z-]*)", text))
        assert sorted(used - set(COMMANDS) - {"help"}) == [], name


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shown_on_a_terminal_and_in_the_html(name):
    text = PAGES[name]
    shown = render_for_terminal(text, 80)

    assert text.startswith("# ")
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown or "…" in text
    assert "```" not in shown
    assert "<pre>" in render_as_html(text) or "```" not in text


def test_a_picture_is_a_part_of_the_html_and_its_words_are_on_a_terminal():
    text = PAGES["killed"]

    assert '<img src="data:image/svg+xml;base64,' in render_as_html(text)
    assert "pictures/" not in render_as_html(text)
    assert "Picture: A run that is killed twice" in render_for_terminal(text, 200)


def test_every_picture_of_the_manual_is_drawn_by_code_and_is_shown_on_a_page():
    shown = {
        name for text in PAGES.values() for name in re.findall(r"\(pictures/([\w-]+)\.svg\)", text)
    }

    assert {path.stem for path in PICTURES.iterdir()} == shown == set(DRAWN)


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_of_the_manual_shows_what_a_run_gives(name, tmp_path):
    assert differs((PICTURES / f"{name}.svg").read_text(), DRAWN[name](tmp_path), 0.03) == ""


def test_the_reference_pages_are_those_that_make_manual_writes():
    found = {path.name: path.read_text() for path in REFERENCE.glob("*.md")}

    assert found == render_reference()


@pytest.mark.long
@pytest.mark.parametrize("name", [one for one in PAGES if "```bash run" in PAGES[one]])
def test_the_commands_of_a_page_do_what_they_say(name, tmp_path):
    assert play(PAGES[name], tmp_path) > 1
