"""Test that a listener keeps the promises of ``jobrun.runner.listeners.listener.RunListener``.

Subclass ``ListenerContract``, and supply the fixtures ``name``, by which the listener is installed
as an entry point of the group ``jobrun.listeners``, and ``read``, which reads its destination::

    class TestMine(ListenerContract):
        @pytest.fixture
        def name(self):
            return "mine"

        @pytest.fixture
        def read(self):
            return lambda run: points_by_name(run.run_id)  # {"loss": [(1, 0.5), (2, 0.25)]}

Each start of a run is a process of its own, as with ``jobrun run``; some of them are killed.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobrun.core.child_process import python_command, run_and_capture
from jobrun.runner.listeners.listener import EpochMetrics, ListenedRun, Number, open_listener

Points = Mapping[str, Sequence[tuple[int, float]]]
Reader = Callable[[ListenedRun], Points]
Rows = Mapping[int, Mapping[str, Number]]
_AT = 1_790_000_000.0
_LONGEST_S = 100.0


class ListenerContract:
    """Tests that a listener of your own passes; subclass it."""

    @pytest.fixture
    def name(self) -> str:
        """Return the name by which the tested listener is installed; override this."""
        raise AssertionError("a subclass supplies the fixture 'name'")

    @pytest.fixture
    def read(self) -> Reader:
        """Return a function that reads what the tested listener has written; override this."""
        raise AssertionError("a subclass supplies the fixture 'read'")

    def test_all_points_are_there_after_the_end(
        self, name: str, read: Reader, tmp_path: Path
    ) -> None:
        run = listened_run(tmp_path)
        odd: dict[str, Number] = {
            "nan": math.nan, "inf": math.inf, "word": "good", "huge": 10**400, "right": True,
            "node/fit.2.size": 3,
        }  # fmt: skip

        start(name, run, {1: {"loss": 0.5}, 2: {"loss": 0.25, **odd}}, {3: {"loss": 0.125}})

        points = finite(read(run))
        assert points["loss"] == [(1, 0.5), (2, 0.25), (3, 0.125)]
        assert points["right"] == [(2, 1.0)]
        assert points["node/fit.2.size"] == [(2, 3.0)]

    def test_a_resume_after_a_kill_leaves_each_point_once(
        self, name: str, read: Reader, tmp_path: Path
    ) -> None:
        run = listened_run(tmp_path)
        sent = {epoch: {"loss": 1.0 / epoch, "count": epoch} for epoch in (1, 2, 4, 8)}
        start(name, run, {}, sent, is_killed=True)
        saved = {epoch: sent[epoch] for epoch in (1, 2)}

        start(name, run, saved, {4: {"loss": 5.0, "count": 4}})

        assert read(run) == {
            "loss": [(1, 1.0), (2, 0.5), (4, 5.0)],
            "count": [(1, 1.0), (2, 2.0), (4, 4.0)],
        }

    def test_a_resume_adds_what_was_not_sent_and_leaves_other_runs_alone(
        self, name: str, read: Reader, tmp_path: Path
    ) -> None:
        run, other = listened_run(tmp_path), listened_run(tmp_path, "other")
        start(name, run, {}, {1: {"loss": 0.5}})
        start(name, other, {}, {1: {"loss": 2.5}})

        start(name, run, {1: {"loss": 0.5}, 2: {"loss": 0.25}}, {})

        assert read(run) == {"loss": [(1, 0.5), (2, 0.25)]}
        assert read(other) == {"loss": [(1, 2.5)]}


def listened_run(folder: Path, name: str = "brisk-heron") -> ListenedRun:
    """Build a run to test a listener with, in a new directory below a folder."""
    directory = folder / "walk" / name
    directory.mkdir(parents=True)
    run_id = f"{int.from_bytes(os.urandom(8)):016x}-{name}"
    return ListenedRun(directory, "walk", name, run_id, {"rate": 0.5, "kind": "a"})


def finite(points: Points) -> dict[str, list[tuple[int, float]]]:
    """Filter the metrics that a listener under test received: keep only finite values."""
    finite_points = {
        name: [point for point in column if math.isfinite(point[1])]
        for name, column in points.items()
    }
    return {name: column for name, column in finite_points.items() if column}


def start(
    name: str, run: ListenedRun, history: Rows, records: Rows, *, is_killed: bool = False
) -> None:
    """Start a process that tests a listener: it gets a run's history, then further records.

    Args:
        name: Of the listener.
        run: The run.
        history: Metrics by epoch, with which it begins.
        records: Metrics by epoch, which it gets then.
        is_killed: Kill the process with SIGKILL then, instead of ending the run.
    """
    facts = {
        "directory": str(run.directory),
        "job": run.job,
        "name": run.name,
        "run_id": run.run_id,
        "params": run.params,
    }
    request = json.dumps([name, facts, history, records, is_killed])
    command = python_command("jobrun.testing.listeners")
    ended = run_and_capture(command, request, limit_s=_LONGEST_S)
    assert ended.returncode == (-signal.SIGKILL if is_killed else 0), ended.stdout + ended.stderr


def _drive() -> None:
    """Run the tested listener in this child process, on a history and records read from stdin."""
    name, facts, history, records, is_killed = json.load(sys.stdin)
    run = ListenedRun(**{**facts, "directory": Path(facts["directory"])})
    listener = open_listener(name)
    listener.begin(run, [_metrics(*item) for item in history.items()])
    for item in records.items():
        listener.record(_metrics(*item))
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    listener.end("finished")


def _metrics(epoch: str, values: Mapping[str, Number]) -> EpochMetrics:
    return EpochMetrics(int(epoch), datetime.fromtimestamp(_AT + int(epoch), UTC), values)


if __name__ == "__main__":
    _drive()
