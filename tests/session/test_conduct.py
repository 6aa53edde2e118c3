from __future__ import annotations

import contextlib
import os
import threading

import pytest

from jobrun.core.events import TasksGivenUp
from jobrun.runtime.frame import GroupRun
from jobrun.runtime.leash import Leash
from jobrun.session.beyond import Beyond
from jobrun.session.cancel import TasksStuckError
from jobrun.session.conduct import Conductor
from jobrun.session.crew import Crew
from jobrun.session.schedule import Part
from tests.session.test_beyond import News


@pytest.fixture
def crew():
    one = Crew(contextlib.nullcontext)
    yield one
    one.close()


@pytest.fixture
def run(crew):
    return GroupRun("epoch", 1, 0, "", "", lambda _: None, {}, crew.start, Leash())


def test_a_part_that_follows_one_elsewhere_starts_when_that_is_told(run, crew):
    beyond = Beyond({}, None, ["first"], (), News())
    said = []
    part = Part("a/then", lambda: said.append("then"))
    part.follow(beyond.parts_of("first")[0])
    threading.Timer(0.02, lambda: (said.append("told"), beyond.arrived("first", {}))).start()

    Conductor(run, crew, 5.0, beyond).conduct([part])

    assert said == ["told", "then"]


def test_after_a_cancel_nobody_waits_for_parts_elsewhere(run, crew):
    beyond = Beyond({}, None, ["first"], (), News())
    said = []
    part = Part("a/then", lambda: said.append("then"))
    part.follow(beyond.parts_of("first")[0])
    threading.Timer(0.02, run.body.cancel).start()

    Conductor(run, crew, 5.0, beyond).conduct([part])

    assert said == []
    assert run.interrupted


def test_a_part_that_does_not_end_is_an_error_and_told(run, crew):
    never = threading.Event()
    told = []
    run.emit = told.append
    part = Part("a/stuck", never.wait)
    run.body.cancel()
    part.always = True

    with pytest.raises(TasksStuckError, match="a/stuck"):
        Conductor(run, crew, 0.01, Beyond({}, None)).conduct([part])

    assert told == [TasksGivenUp(("a/stuck",), 1, os.getpid())]
    never.set()
