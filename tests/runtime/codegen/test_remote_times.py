from __future__ import annotations

from jobrun.runtime.codegen.meter_protocol import BlockTime, Owner, Span, StepTime
from jobrun.runtime.codegen.step_meter import RemoteTimes

OWNER = Owner("epoch", "n", "t", 0)


def block(calls, *epochs, path="epoch/t"):
    step = StepTime("epoch/t/steps[0]", 3, calls, 0.5 * calls, estimated=False)
    spans = tuple(Span(float(epoch), epoch + 0.5, epoch, 7) for epoch in epochs)
    return BlockTime(OWNER, path, calls, 0.5 * calls, (step,), spans)


def test_the_last_report_counts_and_spans_accumulate():
    gathered = RemoteTimes()

    gathered.merge_times("n 1", [block(1, 1)])
    gathered.merge_times("n 1", [block(2, 2)])

    assert list(gathered.times()) == [block(2, 1, 2)]
    assert list(gathered.times()) == [block(2, 1, 2)]


def test_times_of_a_lost_process_and_its_successor_are_both_kept():
    gathered = RemoteTimes()

    gathered.merge_times("n 1", [block(5, 1)])
    gathered.merge_times("n 2", [block(1, 2)])

    assert list(gathered.times()) == [block(5, 1), block(1, 2)]


def test_a_block_that_was_made_twice_has_its_spans_once():
    gathered = RemoteTimes()

    gathered.merge_times("n 1", [block(1, 1)])
    gathered.merge_times("n 1", [block(1), block(1, 2)])

    assert list(gathered.times()) == [block(1, 1, 2), block(1)]
