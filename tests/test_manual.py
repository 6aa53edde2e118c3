"""Each block of the manual and of the README is what it says, and each link leads somewhere."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess

import click
import pytest

from jobrun.cli.app import COMMANDS, group
from jobrun.cli.terminal import Shell
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import JobrunError
from jobrun.spec.load import load_spec
from jobrun.tools.html_manual import render_as_html
from jobrun.tools.manual import SECTIONS, render_for_terminal
from tests.support.command import ROOT, environment
from tests.support.drawing import differs
from tests.support.manual_blocks import (
    PAGES,
    PATHS,
    TEXTS,
    blocks,
    iter_blocks,
    play,
    unused_files,
    way_to_run,
    whole_spec,
)
from tests.support.manual_pictures import DIAGRAMS, DRAWN, PICTURES
from tests.support.manual_reference import REFERENCE, render_reference
from tests.support.manual_services import STAND_INS, serve
from tests.support.manual_shell import Command, PageShell, differences, read_commands


def test_every_page_is_listed_once():
    listed = [name for names in SECTIONS.values() for name in names]

    assert sorted(listed) == sorted(PAGES)


def test_every_link_leads_to_a_file():
    links = [
        (name, link)
        for name, text in TEXTS.items()
        for link in re.findall(r"\]\(([^)#:]+)\)", text)
    ]
    base = {name: path.parent for name, path in PATHS.items()} | {"README": ROOT}

    assert len(links) > 20
    assert [pair for pair in links if not (base[pair[0]] / pair[1]).is_file()] == []


def test_every_block_of_yaml_is_a_spec_or_a_part_of_one_that_compiles(tmp_path):
    count = 0
    for name, block in blocks():
        if block.language == "yaml" and "apiVersion:" not in block.text:
            path = tmp_path / "page.yaml"
            path.write_text(whole_spec(block))
            try:
                compile_job(load_spec(str(path)))
            except JobrunError as error:
                raise AssertionError((name, block.text, error.faults)) from error
            count += 1
    assert count > 10


def test_every_block_of_python_is_python():
    programs = [(name, block) for name, block in blocks() if block.language == "python"]

    assert len(programs) > 3
    for _, block in programs:
        ast.parse(block.text)


def test_every_block_of_shell_is_parsed_by_bash():
    scripts = [(name, block.text) for name, block in blocks() if block.language in {"bash", "sh"}]

    assert len(scripts) > 20
    for name, text in scripts:
        done = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name


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
        name, inner, remaining = command.resolve_command(context, list(words))
        assert inner is not None, words
        command, context = inner, inner.make_context(name, remaining, parent=context)
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
            option
            for part in (command, *parts.values())
            for param in part.params
            for option in (*param.opts, *param.secondary_opts)
        }
        unknown = [word for word in words if word.startswith("-") and word not in known]
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


@pytest.mark.parametrize("name", [page for page in PAGES if "](pictures/" in PAGES[page]])
def test_a_picture_is_a_part_of_the_html_and_its_words_are_on_a_terminal(name):
    text = PAGES[name]
    (words,) = re.findall(r"!\[([^\]]+)\]", text)

    assert '<img src="data:image/svg+xml;base64,' in render_as_html(text)
    assert "pictures/" not in render_as_html(text)
    shown = " ".join(render_for_terminal(text, 80).replace("▌", "").split())
    assert f"Picture: {' '.join(words.split())}" in shown


def test_every_picture_of_the_manual_is_drawn_by_code_and_is_shown_on_a_page():
    shown = {
        name for text in PAGES.values() for name in re.findall(r"\(pictures/([\w-]+)\.svg\)", text)
    }

    assert {path.stem for path in PICTURES.iterdir()} == shown == set(DRAWN)


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_of_the_manual_shows_what_a_run_gives(name, tmp_path):
    shipped, drawn = (PICTURES / f"{name}.svg").read_text(), DRAWN[name](tmp_path)

    assert drawn == shipped if name in DIAGRAMS else differs(shipped, drawn, 0.03) == ""


def test_the_reference_pages_are_those_that_make_manual_writes():
    texts = {path.name: path.read_text() for path in REFERENCE.glob("*.md")}

    assert texts == render_reference()


def test_a_way_to_run_each_block_is_known():
    for name, block in blocks():
        assert way_to_run(block), name
        assert block.language == "text" or block.text in TEXTS[name]


def test_each_file_of_a_page_is_used_on_it():
    assert {name: unused_files(text) for name, text in TEXTS.items() if unused_files(text)} == {}


@pytest.mark.parametrize("fence", ["```sh", "```text", "```", "```toml", "```yml"])
def test_a_block_that_nothing_would_run_is_found(fence):
    (block,) = iter_blocks(f"# A page\n\n{fence}\njobrun runs\n```\n")

    with pytest.raises(ValueError, match="nothing runs a block of"):
        way_to_run(block)


def test_a_file_that_no_block_uses_is_found():
    assert unused_files("```python file=mine.py\nx = 1\n```\n") == ["mine.py"]


def test_output_that_a_page_shows_otherwise_is_found():
    shown = "walk/20261125-1945-neat-lynx continues after epoch 12\n…\nfar 8.1888 in 2 ms\n"
    printed = "walk/20261126-0001-big-cat continues after epoch 7\nmore\nfar {} in 31 ms\n"

    assert differences(shown, printed.format("8.1888")) == ""
    assert differences(shown, printed.format("8.1889"))
    assert differences(shown.replace("…\n", ""), printed.format("8.1888"))


def test_a_command_that_ends_otherwise_than_announced_is_found(tmp_path):
    (wrong,) = read_commands("(exit 3)   # exit 75: stopped early\n")
    shell = PageShell(tmp_path, environment())
    try:
        shell.run(Command("kept=5"))
        assert shell.run(Command("cat <<E\n$kept\nE")) == "5\n"
        with pytest.raises(AssertionError, match="ends with 3"):
            shell.run(wrong)
    finally:
        shell.close()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [page for page in TEXTS if "\n```" in TEXTS[page]])
def test_the_blocks_of_a_page_do_what_they_say(name, tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    with serve(name, folder) as services:
        for piece, other in {**services.replaced, **STAND_INS}.items():
            if any(piece in block.text for block in iter_blocks(TEXTS[name])):
                print(f"{name}: '{piece}' is here '{other.strip()}'")
        ran = play(name, folder, services)

    assert ran == len([*iter_blocks(TEXTS[name])])
