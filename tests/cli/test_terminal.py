"""Where a command's output goes."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.terminal_text import terminal_line
from tests.support.command import environment


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_results_go_to_stdout_and_words_to_stderr(capsys):
    shell = Shell({})
    shell.print("result")
    shell.say("word")
    assert capsys.readouterr() == ("result\n", "word\n")


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    assert not Shell({}).colours
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Shell({}).colours
    painted = terminal_line(Shell({}).paint("a", "red", "bold"))
    assert painted == "\x1b[31;1ma\x1b[0m"
    assert not Shell({"NO_COLOR": "1"}).colours
    assert not Shell({"TERM": "dumb"}).colours
    assert not Shell({}, plain=True).colours
    assert Shell({}, plain=True).paint("a", "red") == "a"


def test_a_display_is_live_on_a_terminal_outside_ci(monkeypatch):
    assert not Shell({}).live
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Shell({}).live
    assert not Shell({"CI": "true"}).live
    assert not Shell({"CI": "true", "FORCE_COLOR": "1"}).live
    assert not Shell({"TERM": "dumb"}).live
    monkeypatch.setattr(Terminal, "encoding", "iso-8859-1", raising=False)
    assert not Shell({}).live


def test_missing_streams_are_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    shell = Shell({})
    shell.print("a")
    shell.say("b")
    assert not shell.terminal


def test_a_stream_that_cannot_say_a_character_says_a_question_mark(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    Shell({}).say("größe")
    assert raw.getvalue() == b"gr??e\n"


PROGRAM = """
import sys
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
shell = Shell({})
for number in range(20000):
    shell.print("x" * 80)
shell.say("still here")
"""


def test_a_reader_that_goes_away_is_no_error():
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(100)
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), errors) == (0, b"still here\n")


def test_a_full_device_is_an_error_of_the_machine(monkeypatch):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(EnvironmentFaultError, match="cannot write"):
            Shell({}).print("x")
        Shell({}).print("dropped without another word")


def test_a_terminal_is_seen_through_a_pseudo_terminal():
    main, other = pty.openpty()
    program = "from jobrun.cli.terminal import Shell; print(Shell({}).live)"
    done = subprocess.run(
        [sys.executable, "-c", program], stderr=other, stdout=subprocess.PIPE, check=True
    )
    os.close(main)
    os.close(other)
    assert done.stdout == b"True\n"


@pytest.mark.parametrize(
    "words", [["ops"], ["ops", "--left-out"], ["new", "csv"], ["explain"], ["doctor"]]
)
def test_what_is_printed_to_a_terminal_of_80_columns_fits(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Shell, "result_width", property(lambda _: 80))
    monkeypatch.setattr(Shell, "message_width", property(lambda _: 80))

    assert invoke(words) == 0

    captured = capsys.readouterr()
    assert max(map(len, (captured.out + captured.err).splitlines())) <= 80
