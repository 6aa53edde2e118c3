"""What callables print is in the log of their task, and on the terminal, in each session."""

from __future__ import annotations

import pytest

from tests.support.command import jobrun

TALK = """
import logging, sys, warnings

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

def talk(epoch, node):
    print("hello", node, epoch)
    logging.info("logged %d", epoch)
    warnings.showwarning(UserWarning("warned"), UserWarning, "x.py", 3, line="")
    sys.stderr.write("\\r 50%|##\\r100%|####\\n")
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
    assert ended.stdout.splitlines() == ["hello a 1", "hello b 1", "hello a 2", "hello b 2"]
    assert ended.stderr.count("INFO logged 2") == 2
    for task, node in (("chat", "a"), ("other", "b")):
        said = jobrun("logs", "latest", task, cwd=tmp_path).stdout
        assert said.splitlines() == [
            line
            for epoch in (1, 2)
            for line in (
                f"[{epoch}] hello {node} {epoch}",
                f"[{epoch}] INFO logged {epoch}",
                f"[{epoch}] x.py:3: UserWarning: warned",
                f"[{epoch}] 100%|####",
            )
        ]
