from __future__ import annotations

from jobrun.core.events import Noted
from jobrun.session.base import RunContext


def test_a_context_without_a_listener_drops_events():
    RunContext(7, "/run", "/spec").emit(Noted("nothing"))


def test_contexts_are_compared_without_their_listener():
    assert RunContext(7, "a", "b", print) == RunContext(7, "a", "b")
