from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.rng import StreamKey, make_stream
from jobrun.testing.graphs import ref
from tests.support.step_bench import Bench


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def test_a_stream_is_that_of_the_place_and_made_once(bench):
    frame = bench.frame.at("e/t/report[0]")
    expected = make_stream(7, StreamKey("epoch", 3, "local", "t", 0, "e/t/report[0]")).random(2)

    assert [frame.rng.random(), frame.rng.random()] == expected.tolist()
    assert set(frame.streams) == {"e/t/report[0]"}


def test_a_block_that_runs_again_continues_its_random_stream(bench):
    first = bench.frame.at("e/t/x").rng.random()

    assert bench.frame.at("e/t/x").rng.random() != first


def test_the_view_of_another_block_shares_workspaces_but_not_pass_numbers(bench):
    bench.frame.loops["l"] = 1
    other = bench.frame.at("else")
    other.loops["l"] = 2

    assert (bench.frame.loops, other.block_path) == ({"l": 1}, "else")
    assert other.t is bench.frame.t


def test_cleaning_continues_after_a_cancel(bench):
    bench.run.body.cancel()
    frame = bench.frame.for_cleanup("exit", failed=True)

    assert not frame.cancel.cancelled
    assert frame.failed


def test_an_output_that_is_not_there_says_what_to_do(bench):
    bench.run.outputs[ref("a", "x")] = 1
    assert bench.frame.output(ref("a", "x")) == 1

    with pytest.raises(TaskFailedError) as caught:
        bench.frame.output(ref("b", "x"))

    assert "needs: [b]" in caught.value.faults[0].mend
