"""What a task prints becomes lines of its log, and reaches the terminal as it was written."""

from __future__ import annotations

import io
import logging
import os
import sys

import pytest

from jobrun.core.printed_output import (
    STREAMS,
    CollectingStream,
    PrintedLines,
    collect,
    without_collecting,
)


class Terminal:
    """A terminal that shows both standard streams as one text."""

    def __init__(self):
        self.text = io.TextIOWrapper(io.BytesIO(), write_through=True)

    def lines_of(self, act, *, is_shown=True):
        """Return what is logged of what a task prints by ``act``."""
        found = []
        # Not in a fixture: pytest has other streams for each phase of a test.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", self.text)
            patch.setattr(sys, "stderr", self.text)
            STREAMS.install()
            STREAMS.is_shown = is_shown
            try:
                with collect(PrintedLines(found.append)):
                    act()
            finally:
                STREAMS.remove()
                STREAMS.is_shown = True
            assert sys.stdout is self.text
        return found

    def __call__(self):
        return self.text.buffer.getvalue().decode()


@pytest.fixture
def terminal():
    return Terminal()


def test_a_line_is_logged_and_shown(terminal):
    assert terminal.lines_of(lambda: print("a\nb")) == ["a", "b"]
    assert terminal() == "a\nb\n"


def test_a_line_in_pieces_is_one_and_the_last_needs_no_end(terminal):
    def act():
        print("one ", end="")
        print("line")
        print("left", end="")

    assert terminal.lines_of(act) == ["one line", "left"]
    assert terminal() == "one line\nleft"


def test_both_streams_are_divided_into_lines_by_themselves(terminal):
    def act():
        print("out", end="")
        print("err", file=sys.stderr)
        print("put")

    assert terminal.lines_of(act) == ["err", "output"]


def test_of_a_progress_bar_the_last_state_is_logged(terminal):
    def act():
        for done in (0, 50, 100):
            sys.stderr.write(f"\r{done:3}%|##")
        sys.stderr.write("\n")
        sys.stderr.write("\rwiped\r     \r")

    assert terminal.lines_of(act) == ["100%|##"]
    assert terminal().count("\r") == 6


def test_windows_line_ends_and_empty_lines_stay_lines():
    found = []
    lines = PrintedLines(found.append)
    lines.add("stdout", "a\r\n\nb\n")

    assert found == ["a", "", "b"]


def test_a_line_without_end_is_bounded():
    found = []
    lines = PrintedLines(found.append)
    lines.add("stdout", "x" * 200_000)
    lines.end()

    assert len(found) == 4
    assert "".join(found) == "x" * 200_000


def test_a_bar_that_is_never_ended_takes_no_memory():
    found = []
    lines = PrintedLines(found.append)
    for number in range(20_000):
        lines.add("stderr", f"\r{number:6}|####")
    lines.end()

    assert found == [" 19999|####"]


def test_logging_and_bytes_are_printed_too(terminal):
    def act():
        logger = logging.getLogger("tests.printed")
        handler = logging.StreamHandler()
        logger.addHandler(handler)
        logger.warning("by a logger")
        logger.removeHandler(handler)
        sys.stdout.buffer.write(b"by\xff bytes\n")

    assert terminal.lines_of(act) == ["by a logger", r"by\xff bytes"]


def test_what_is_printed_outside_of_tasks_or_by_listeners_is_not_logged(terminal):
    listen = without_collecting(print)

    assert terminal.lines_of(lambda: listen("heard")) == []
    assert terminal() == "heard\n"


def test_a_display_can_keep_what_is_printed_from_the_terminal(terminal):
    def act():
        print("a")
        sys.stdout.buffer.write(b"b\n")
        without_collecting(print)("its own")

    assert terminal.lines_of(act, is_shown=False) == ["a", "b"]
    assert terminal() == "its own\n"


def test_streams_are_put_back_after_the_last_of_two_sessions(terminal):
    def act():
        STREAMS.install()
        STREAMS.remove()
        assert isinstance(sys.stdout, CollectingStream)
        assert (sys.stdout.isatty(), sys.stdout.encoding) == (False, terminal.text.encoding)

    assert terminal.lines_of(act) == []


def test_a_forked_process_logs_nothing_but_shows_what_it_prints(terminal):
    def act():
        logged = []
        with collect(PrintedLines(logged.append)):
            child = os.fork()
            if child == 0:
                print("child")
                os._exit(10 * len(logged) + len(terminal().splitlines()))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            print("parent")
        assert logged == ["parent"]

    terminal.lines_of(act)
