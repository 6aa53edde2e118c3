"""What the system says of processes that it has killed."""

from __future__ import annotations

from jobrun.core import system_calls
from jobrun.core.system_calls import count_memory_kills


def test_kills_for_lack_of_memory_are_counted(monkeypatch):
    monkeypatch.setattr(system_calls, "read_proc", lambda *_: b"pgfault 7\noom_kill 3\n")

    assert count_memory_kills() == 3


def test_no_kills_are_counted_where_the_system_does_not_say(monkeypatch):
    monkeypatch.setattr(system_calls, "read_proc", lambda *_: b"")

    assert count_memory_kills() == 0
