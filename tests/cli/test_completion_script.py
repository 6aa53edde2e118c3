"""The completion script, and what bash gets, which breaks words at '@', '=' and ':'."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from click.shell_completion import CompletionItem

from jobrun.cli.completion_script import WholeLineBash
from jobrun.cli.run_command import invoke
from tests.support.command import environment
from tests.support.sample_runs import make_run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_the_shell_that_was_named(shell, capsys):
    assert invoke(["completion", shell]) == 0

    captured = capsys.readouterr()
    assert f"_JOBRUN_COMPLETE={shell}_complete" in captured.out
    assert shell in captured.err


def test_without_a_name_it_is_the_users_own(monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")

    assert invoke(["completion"]) == 0

    assert "zsh_complete" in capsys.readouterr().out


def test_bash_takes_the_script(capsys):
    assert invoke(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p jobrun"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "_jobrun_completion" in done.stdout


BREAKS = " \t\n\"'@><=;|&(:"


def completed(line, cwd, capsys, breaks=BREAKS):
    """What bash would put behind the last of its own words."""
    assert invoke(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    asked = f"""
jobrun() {{ :; }}
{script}
COMP_LINE={shlex.quote(line)}
COMP_POINT=${{#COMP_LINE}}
COMP_WORDBREAKS={shlex.quote(breaks)}
_jobrun_completion "$1"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    program = cwd / "jobrun-here"
    program.write_text(f'#!/bin/bash\nexec {sys.executable} -m jobrun "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", asked, "bash", str(program)],
        cwd=cwd, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("jobrun fork shrink@", ["@4", "@3", "@2", "@1", "@0"]),
        ("jobrun fork shrink@3", ["@3"]),
        ("jobrun run a.yaml --session=pro", ["processes"]),
        ("jobrun run a.yaml --session ray:a", ["auto"]),
        ("jobrun stat", ["status"]),
    ],
)
def test_the_part_that_bash_does_not_have_is_given(tmp_path, capsys, line, wanted):
    make_run(tmp_path)

    assert completed(line, tmp_path, capsys) == wanted


@pytest.mark.long
def test_where_bash_breaks_at_blanks_only_it_gets_whole_words(tmp_path, capsys):
    make_run(tmp_path)

    assert completed("jobrun fork shrink@3", tmp_path, capsys, " ") == ["shrink@3"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jobrun run ", (["run"], "")),
        ("jobrun run 'a b' c=", (["run", "a b"], "c=")),
        ("", ([], "")),
    ],
)
def test_the_line_is_read_as_a_shell_reads_it(monkeypatch, line, words):
    monkeypatch.setenv("COMP_WORDS", line)

    assert WholeLineBash(None, {}, "jobrun", "X").get_completion_args() == words


@pytest.mark.parametrize(
    ("typed", "value", "put"),
    [("walk@", "walk@3", "@3"), ("walk@3", "walk@31", "@31"), ("wa", "walk", "walk"),
     ("--session=ra", "ray", "ray"), ("ray:a", "ray:auto", "auto")],
)  # fmt: skip
def test_text_before_the_last_break_is_left_out(monkeypatch, typed, value, put):
    monkeypatch.setenv("COMP_WORDS", f"jobrun fork {typed}")
    monkeypatch.setenv("_JOBRUN_WORDBREAKS", BREAKS)

    formatted = WholeLineBash(None, {}, "jobrun", "X").format_completion(CompletionItem(value))

    assert formatted == f"plain,{put}"


def test_the_script_hands_over_the_line():
    assert "COMP_LINE" in WholeLineBash.source_template
