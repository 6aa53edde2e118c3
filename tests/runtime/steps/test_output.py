from __future__ import annotations

import signal
import subprocess

import pytest

from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.steps.run_program import LineSplitter, follow_output


def started(line):
    return subprocess.Popen(
        ["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"10%\r20%\r\nend"], ["10%", "20%", "end"]),
        ([b"\xff\n"], ["\ufffd"]),
        ([b"\n\n"], ["", ""]),
        ([], []),
    ],
)
def test_bytes_are_cut_into_lines(pieces, lines):
    received: list[str] = []
    cutter = LineSplitter(received.append)
    for piece in pieces:
        cutter.feed(piece)
    cutter.end()

    assert received == lines


def test_a_line_without_end_is_passed_on_in_parts():
    lines: list[str] = []
    cutter = LineSplitter(lines.append)
    for _ in range(5):
        cutter.feed(b"x" * 40000)
    cutter.end()

    assert "".join(lines) == "x" * 200000
    assert max(map(len, lines)) <= 1 << 16


def test_all_output_is_passed_on_and_the_exit_code_returned():
    lines: list[str] = []
    with started("seq 20000; exit 5") as process:
        code = follow_output(process, lines.append, CancelScope())

    assert code == 5
    assert lines == [str(number) for number in range(1, 20001)]


def test_a_program_that_closes_its_output_early_is_waited_for():
    lines: list[str] = []
    with started("exec >&- 2>&-; sleep 0.2; exit 4") as process:
        assert follow_output(process, lines.append, CancelScope()) == 4


def test_a_background_process_does_not_hold_the_step():
    lines: list[str] = []
    with started("sleep 1000 & echo up") as process:
        assert follow_output(process, lines.append, CancelScope()) == 0

    assert lines == ["up"]


def test_cancel_asks_first_and_forces_later():
    scope, lines = CancelScope(), []

    def tell(line: str) -> None:
        lines.append(line)
        scope.cancel()

    with started(
        "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.01; done"
    ) as process:
        code = follow_output(process, tell, scope)

    # Between them the shell may tell of its own child.
    assert (code, lines[0], lines[-1]) == (7, "up", "asked")


@pytest.mark.long
def test_a_program_that_will_not_end_is_killed():
    scope = CancelScope()
    with started("trap '' TERM; echo up; while :; do sleep 0.01; done") as process:
        code = follow_output(process, lambda _: scope.cancel(), scope)

    assert code == -9


def test_an_error_while_telling_ends_the_program():
    def tell(line: str) -> None:
        raise RuntimeError(line)

    with started("echo up; sleep 1000") as process, pytest.raises(RuntimeError):
        follow_output(process, tell, CancelScope())

    assert process.returncode == -9


def test_a_program_that_ignores_the_request_is_killed_at_once_where_the_scope_says_so():
    scope = CancelScope()
    scope.at_once = True

    def tell(line):
        scope.cancel()

    with started("trap 'echo politely' TERM; echo up; while true; do sleep 0.05; done") as process:
        lines: list[str] = []
        code = follow_output(process, lambda line: (lines.append(line), tell(line)), scope)

    assert code == -signal.SIGKILL
    assert lines == ["up"]
