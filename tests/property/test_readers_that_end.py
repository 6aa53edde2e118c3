"""A job whose readers end runs every epoch that is declared, with its setups and tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.checks import check_runner
from tests.support.expression_models import Assign, Augment, Target, Term, const, join, name
from tests.support.thinning import examples

LEVELS = ("node", "task", "instance")


def _increase(blob: str, value: Term) -> Augment:
    return Augment(Target(blob), "+", value)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a job whose tasks read, directly or from a queue, readers that end sooner or later."""
    names = draw(st.lists(st.sampled_from(["r0", "r1"]), min_size=1, max_size=2, unique=True))
    state = ["last"]

    def setup() -> dict[str, Any]:
        """Draw steps that change a blob which nothing else changes."""
        blob = f"s{len(state)}"
        state.append(blob)
        steps = [Assign((Target(blob),), (join("{} * 3 + 1", lambda a: a * 3 + 1, name(blob)),))]
        return {draw(st.sampled_from(["init", "exit"])): steps}

    tasks = []
    for number, reader in enumerate(names):
        state.append(f"n{number}")
        field = reader.replace("r", "x")
        counted = _increase(f"n{number}", name(field))
        task: dict[str, Any] = {"task": f"t{number}", "read": reader, "steps": [counted]}
        tasks.append(task)
        if draw(st.booleans()):
            task |= {"steps": [], "write": {f"q{number}": [field]}}
            tasks.append({"task": f"u{number}", "read": f"q{number}", "steps": [counted]})
    for task in tasks:
        levels = draw(st.lists(st.sampled_from(LEVELS), max_size=2, unique=True))
        if levels:
            task["setup"] = {level: setup() for level in levels}
    if draw(st.booleans()):
        # A task without records, which waits for all others.
        waits = [task["task"] for task in tasks]
        tasks.append({"task": "v", "needs": waits, "steps": [_increase("last", const("1", 1))]})
    epoch: dict[str, Any] = {"tasks": tasks}
    if draw(st.booleans()):
        epoch["setup"] = setup()
    nodes = {"w": {"count": 2}} if draw(st.booleans()) else {"w": {}}
    begin = [Assign((Target(blob),), (const("1", 1),)) for blob in state]
    for task in tasks:
        task["node"] = "w"
    return {
        "jobrun": 1,
        "name": "ends",
        "seed": draw(st.integers(0, 1)),
        "nodes": nodes,
        "readers": {reader: _reader(draw, reader) for reader in names},
        "queues": {queue: {} for task in tasks for queue in task.get("write", {})},
        "init": {"tasks": [{"task": "begin", "node": "w", "steps": begin}]},
        "epoch": epoch,
        "stop": [{"epochs": draw(st.integers(1, 5))}],
    }


def _reader(draw: st.DrawFn, reader: str) -> dict[str, Any]:
    limit = draw(st.sampled_from([None, 1, 2]))
    return {
        "counter": {"stop": draw(st.integers(0, 4))},
        "fields": [reader.replace("r", "x")],
        "restart": draw(st.sampled_from(["never", "never", "epoch"])),
        **({} if limit is None else {"limit": limit}),
    }


def _check(spec: dict[str, Any]) -> None:
    # Not tmp_path: hypothesis calls the test many times.
    with tempfile.TemporaryDirectory() as folder:
        check_runner(spec, Path(folder))


@settings(deadline=None, max_examples=8)
@given(jobs())
def test_readers_that_have_ended_end_no_job(spec):
    _check(spec)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(deadline=None, max_examples=examples(100))
@given(jobs())
def test_readers_that_have_ended_end_none_of_many_jobs(spec):
    _check(spec)
