"""What a task prints becomes lines of its log, and reaches the terminal as it was written."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from jobrun.core.captured_output import (
    STREAMS,
    CollectingStream,
    OutputFile,
    PrintedLines,
    collect,
    open_output_files,
    without_collecting,
)


class Terminal:
    """A terminal that shows both standard streams as one text."""

    def __init__(self):
        self.text = io.TextIOWrapper(io.BytesIO(), write_through=True)

    def lines_of(self, act, *, is_shown=True):
        """Return what is logged of what a task prints by ``act``."""
        output = []
        # Not in a fixture: pytest has other streams for each phase of a test.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", self.text)
            patch.setattr(sys, "stderr", self.text)
            STREAMS.install()
            STREAMS.is_shown = is_shown
            try:
                with collect(PrintedLines(output.append)):
                    act()
            finally:
                STREAMS.remove()
                STREAMS.is_shown = True
            assert sys.stdout is self.text
        return output

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


def test_without_memory_for_a_thread_output_is_passed_on_at_the_end_of_a_call(
    terminal, monkeypatch
):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert terminal.lines_of(lambda: os.write(1, b"by descriptor\n")) == ["by descriptor"]


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
    output = []
    lines = PrintedLines(output.append)
    lines.add("stdout", "a\r\n\nb\n")

    assert output == ["a", "", "b"]


def test_a_line_without_end_is_bounded():
    output = []
    lines = PrintedLines(output.append)
    lines.add("stdout", "x" * 200_000)
    lines.end()

    assert len(output) == 4
    assert "".join(output) == "x" * 200_000


def test_a_bar_that_is_never_ended_takes_no_memory():
    output = []
    lines = PrintedLines(output.append)
    for number in range(20_000):
        lines.add("stderr", f"\r{number:6}|####")
    lines.end()

    assert output == [" 19999|####"]


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


def test_what_is_written_to_descriptors_is_logged_with_the_call_that_began_last(capfd):
    output = {"first": [], "second": []}
    STREAMS.install()
    try:
        os.write(1, b"before\n")
        with collect(PrintedLines(output["first"].append)):
            os.write(1, b"one\n")
            with collect(PrintedLines(output["second"].append)):
                os.write(2, b"two\npart")
            os.write(1, b"three\n")
        STREAMS.settle()
        os.write(1, b"after\n")
    finally:
        STREAMS.remove()

    assert output == {"first": ["one", "three"], "second": ["two", "part"]}
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("before\none\nthree\nafter\n", "two\npart")


def test_between_calls_of_one_task_no_file_is_read(monkeypatch):
    output, reads = [], []
    read = OutputFile.read
    STREAMS.install()
    try:
        with collect(PrintedLines(output.append, ("task",))):
            os.write(1, b"one\n")
        monkeypatch.setattr(OutputFile, "read", lambda self: reads.append(1) or read(self))
        for _ in range(9):
            with collect(PrintedLines(output.append, ("task",))):
                pass
        without_reading = len(reads)
        STREAMS.settle()
    finally:
        STREAMS.remove()

    # The thread that looks may have come by.
    assert without_reading <= 4
    assert output == ["one"]


def test_a_call_of_another_task_gets_nothing_of_what_the_one_before_wrote():
    output = {"first": [], "second": []}
    STREAMS.install()
    try:
        for task, lines in output.items():
            with collect(PrintedLines(lines.append, (task,))):
                os.write(1, f"{task}, without end".encode())
    finally:
        STREAMS.remove()

    assert output == {task: [f"{task}, without end"] for task in output}


def test_what_was_written_before_an_event_is_logged_before_it():
    output = []
    STREAMS.install()
    try:
        with collect(PrintedLines(output.append, ("task",))):
            os.write(1, b"of the call\n")
        without_collecting(output.append)("task ended")
    finally:
        STREAMS.remove()

    assert output == ["of the call", "task ended"]


def test_a_rest_that_was_read_between_two_calls_is_not_lost():
    output = []
    STREAMS.install()
    try:
        for text in (b"one", b"two"):
            with collect(PrintedLines(output.append, ("task",))):
                os.write(1, text)
            STREAMS.pass_on()
    finally:
        STREAMS.remove()

    assert output == ["one", "two"]


def test_what_a_display_keeps_from_the_terminal_is_logged_from_descriptors_too(capfd):
    output = []
    STREAMS.install()
    STREAMS.is_shown = False
    try:
        with collect(PrintedLines(output.append)):
            os.write(1, b"kept\n")
    finally:
        STREAMS.remove()
        STREAMS.is_shown = True

    assert (output, capfd.readouterr().out) == (["kept"], "")


def test_a_display_that_writes_under_its_lock_is_not_asked_to_show_lines():
    display = threading.Lock()
    output = []

    def show(line):
        with display:
            output.append(line)

    def draw():
        with display:
            sys.stderr.write("")

    STREAMS.install()
    try:
        with collect(PrintedLines(show)):
            os.write(1, b"a line\n")
            drawing = threading.Thread(target=draw, daemon=True)
            drawing.start()
            drawing.join(30)
            assert not drawing.is_alive()
    finally:
        STREAMS.remove()

    assert output == ["a line"]


def test_a_long_call_shows_what_it_writes_to_descriptors_while_it_runs(capfd):
    STREAMS.install()
    try:
        with collect(PrintedLines(lambda _: None)):
            os.write(1, b"soon\n")
            end = time.monotonic() + 30
            shown = ""
            while not shown and time.monotonic() < end:
                time.sleep(0.01)
                shown = capfd.readouterr().out
    finally:
        STREAMS.remove()

    assert shown == "soon\n"


def test_what_a_program_writes_after_it_has_emptied_the_file_is_logged(capfd):
    output = []
    STREAMS.install()
    try:
        with collect(PrintedLines(output.append)):
            os.write(2, b"a line that is long\n")
            STREAMS.pass_on()
            subprocess.run(["sh", "-c", "echo short > /dev/stderr"], check=True)
            end = time.monotonic() + 30
            while len(output) < 2 and time.monotonic() < end:
                time.sleep(0.01)
    finally:
        STREAMS.remove()

    assert output == ["a line that is long", "short"]


def test_memory_of_output_that_was_read_is_freed():
    (file, *others) = open_output_files()
    try:
        for _ in range(16):
            os.write(file.writing, b"x" * (1 << 20))
            while file.read():
                pass
        assert os.fstat(file.writing).st_blocks * 512 < 4 << 20
    finally:
        for file_ in (file, *others):
            file_.close()


def test_a_forked_process_is_logged_by_way_of_the_descriptor(capfd):
    output = []
    STREAMS.install()
    try:
        with collect(PrintedLines(output.append)):
            child = os.fork()
            if child == 0:
                os.write(1, b"by a child\n")
                os._exit(0)
            os.waitpid(child, 0)
    finally:
        STREAMS.remove()

    assert (output, capfd.readouterr().out) == (["by a child"], "by a child\n")


def test_a_stream_whose_write_returns_nothing_can_be_collected(terminal):
    class Odd(io.StringIO):
        def write(self, text):
            super().write(text)

    output = []
    stream = CollectingStream(Odd(), "stdout")
    STREAMS.install()
    try:
        with collect(PrintedLines(output.append)):
            print("line", file=stream)
    finally:
        STREAMS.remove()

    assert output == ["line"]


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
