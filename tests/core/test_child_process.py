"""Child processes: lines to them, their ends, and programs that take too long."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from jobrun.core.child_process import (
    parse_event,
    run_and_capture,
    signal_group,
    wait_or_kill,
    write_line,
)


def start(program, **options):
    return subprocess.Popen([sys.executable, "-c", program], **options)


def test_a_child_reads_lines_of_json():
    copy = "import sys; print(sys.stdin.read(), end='')"
    with start(copy, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        write_line(child, {"a": 1})
        write_line(child, "end", is_last=True)

        assert child.stdout.read() == b'{"a": 1}\n"end"\n'


def test_a_line_to_a_child_that_has_ended_is_dropped():
    child = start("pass", stdin=subprocess.PIPE)
    child.wait()

    write_line(child, "late")
    write_line(child, "later", is_last=True)

    child.communicate()


def test_a_child_that_takes_too_long_is_killed():
    assert wait_or_kill(start("import time; time.sleep(60)"), 0.1) == -signal.SIGKILL
    assert wait_or_kill(start("raise SystemExit(3)"), 60) == 3


def test_a_signal_to_a_group_that_is_gone_is_dropped():
    child = start("import time; time.sleep(60)", process_group=0)

    signal_group(child, signal.SIGTERM)

    assert child.wait() == -signal.SIGTERM
    signal_group(child, signal.SIGTERM)


def test_a_program_reads_its_text_and_its_output_is_returned():
    program = "import sys; print(sys.stdin.read()); sys.exit('\\udcff')"

    done = run_and_capture([sys.executable, "-c", program], "text")

    assert (done.returncode, done.stdout) == (1, "text\n")


def test_a_program_over_its_limit_is_a_timeout_error():
    with pytest.raises(TimeoutError, match="timed out after"):
        run_and_capture(["sleep", "60"], limit_s=0.1)


def test_only_objects_of_json_are_events():
    assert parse_event('{"event": "Fault"}\n') == {"event": "Fault"}
    assert parse_event("[1]") == parse_event("words") == parse_event("") == {}
