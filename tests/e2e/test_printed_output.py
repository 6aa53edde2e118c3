"""What callables print is in the log of their task, and on the terminal, in each session."""

from __future__ import annotations

import pytest

from tests.support.command import jobrun

TALK = """
import ctypes, logging, os, sys, warnings

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

def talk(epoch, node):
    print("hello", node, epoch)
    logging.info("logged %d", epoch)
    warnings.showwarning(UserWarning("warned"), UserWarning, "x.py", 3, line="")
    sys.stderr.write("\\r 50%|##\\r100%|####\\n")
    ctypes.CDLL(None).puts(b"by C")
    os.system("echo by a program")
"""
SPEC = """
jobrun: 1
name: talk
nodes: {a: {}, b: {}}
init: [{task: first, node: a, steps: ["x = 0"]}, {task: second, node: b, steps: ["x = 0"]}]
epoch:
  - {task: chat, node: a, steps: [{call: "talk:talk"}, "x = x + 1"]}
  - {task: other, node: b, needs: [chat], steps: [{call: "talk:talk"}, "x = x + 1"]}
stop: [epochs: 2]
"""


@pytest.mark.parametrize("session", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_prints_are_logged_under_their_task_and_shown_once(tmp_path, session):
    (tmp_path / "talk.py").write_text(TALK)
    (tmp_path / "talk.yaml").write_text(SPEC)

    ended = jobrun("run", "talk.yaml", "--session", session, cwd=tmp_path)

    assert ended.returncode == 0
    shown = ended.stdout.splitlines()
    assert [line for line in shown if line.startswith("hello")] == [
        "hello a 1", "hello b 1", "hello a 2", "hello b 2",
    ]  # fmt: skip
    assert sorted(shown)[:8] == ["by C"] * 4 + ["by a program"] * 4
    assert ended.stderr.count("INFO logged 2") == 2
    for task, node in (("chat", "a"), ("other", "b")):
        output = jobrun("logs", "latest", task, cwd=tmp_path).stdout
        assert output.splitlines() == [
            line
            for epoch in (1, 2)
            for line in (
                f"[{epoch}] hello {node} {epoch}",
                f"[{epoch}] INFO logged {epoch}",
                f"[{epoch}] x.py:3: UserWarning: warned",
                f"[{epoch}] 100%|####",
                f"[{epoch}] by C",
                f"[{epoch}] by a program",
            )
        ]


@pytest.mark.parametrize("session", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_last_words_of_c_code_before_a_crash_are_shown_and_logged(tmp_path, session):
    (tmp_path / "crash.py").write_text(
        "import ctypes\n"
        "def crash():\n"
        "    library = ctypes.PyDLL(None)\n"
        "    library.puts(b'last words')\n"
        "    ctypes.string_at(0)\n"
    )
    (tmp_path / "crash.yaml").write_text(
        "jobrun: 1\nname: crash\ninit: [{task: first, steps: ['x = 0']}]\n"
        "epoch: [{task: fall, steps: [{call: 'crash:crash'}]}]\nstop: [epochs: 2]\n"
    )

    command = ["run", "crash.yaml", "--session", session, "--max-failures", "0"]
    ended = jobrun(*command, cwd=tmp_path, started=True)

    assert "last words" in ended.stdout.splitlines()
    assert jobrun("logs", "latest", "fall", cwd=tmp_path).stdout == "[1] last words\n"


def test_c_code_that_holds_the_gil_can_print_any_amount(tmp_path):
    (tmp_path / "long.py").write_text(
        "import ctypes\ndef print_long():\n    ctypes.PyDLL(None).printf(b'%4000000d\\n', 7)\n"
    )
    (tmp_path / "long.yaml").write_text(
        "jobrun: 1\nname: long\ninit: [{task: first, steps: ['x = 0']}]\n"
        "epoch: [{task: say, steps: [{call: 'long:print_long'}]}]\nstop: [epochs: 1]\n"
    )

    ended = jobrun("run", "long.yaml", cwd=tmp_path)

    assert ended.returncode == 0
    assert ended.stdout.splitlines()[0] == " " * 3_999_999 + "7"


@pytest.mark.parametrize("restart", ["epoch", "never"])
def test_prints_of_a_reader_are_logged_under_the_task_that_reads(tmp_path, restart):
    (tmp_path / "rows.py").write_text(
        "class Rows:\n"
        "    def __init__(self):\n"
        "        print('opened')\n"
        "    def __iter__(self):\n"
        "        for number in range(4):\n"
        "            print('row', number)\n"
        "            yield number\n"
    )
    (tmp_path / "rows.yaml").write_text(
        "jobrun: 1\nname: rows\n"
        f"readers: {{r: {{call: 'rows:Rows', fields: [n], limit: 2, restart: {restart}}}}}\n"
        "init: [{task: first, steps: ['x = 0']}]\n"
        "epoch: [{task: count, read: r, steps: ['x += n']}]\nstop: [epochs: 2]\n"
    )

    assert jobrun("run", "rows.yaml", cwd=tmp_path).returncode == 0

    output = jobrun("logs", "latest", "count", cwd=tmp_path).stdout.splitlines()
    rows = [line for line in output if "row" in line]
    # A row further on may be read at once, in whichever epoch, to know whether there is one.
    assert rows[:2] == ["[1] row 0", "[1] row 1"]
    assert rows[-1] == ("[2] row 1" if restart == "epoch" else "[2] row 3")
    assert len(rows) == 4
    assert output[0] == "[1] opened"
