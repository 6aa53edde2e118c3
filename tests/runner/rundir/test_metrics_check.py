"""What ``metrics.jsonl`` has lost, against what the journal says it held."""

from __future__ import annotations

import pytest

from jobrun.core.events import Measured
from jobrun.runner.rundir.journal import MetricsSpan
from jobrun.runner.rundir.logs import MetricsTally, event_json
from jobrun.runner.rundir.metrics_check import (
    MetricsGap,
    find_metrics_gaps,
    has_lost_metrics,
    sum_lines,
)


def line(epoch: int, name: str = "x") -> str:
    return event_json(Measured(name, epoch / 3, epoch))


@pytest.fixture
def lines():
    return [line(epoch, name) for epoch in range(1, 7) for name in ("x", "y")]


@pytest.fixture
def spans(lines):
    tally = MetricsTally()
    for at, text in enumerate(lines):
        tally.add(1 + at // 2, text)
    return tuple(MetricsSpan(last - 2, last, *tally.take(last)) for last in (2, 4, 6))


def write(run, lines):
    (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_all_lines_are_there_in_any_order_and_with_later_ones(tmp_path, lines, spans):
    write(tmp_path, [*reversed(lines), line(6, "exit"), line(7)])

    assert find_metrics_gaps(tmp_path, spans) == ()
    assert not has_lost_metrics(tmp_path, spans)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ([0], [MetricsGap(1, 2, 4, 1)]),
        ([3, 4, 5], [MetricsGap(1, 4, 8, 3)]),
        ([0, 11], [MetricsGap(1, 2, 4, 1), MetricsGap(5, 6, 4, 1)]),
        (range(12), [MetricsGap(1, 6, 12, 12)]),
    ],
)
def test_missing_lines_are_counted_by_the_epochs_of_a_save(tmp_path, lines, spans, gone, expected):
    write(tmp_path, [line for at, line in enumerate(lines) if at not in gone])

    assert list(find_metrics_gaps(tmp_path, spans)) == expected
    assert has_lost_metrics(tmp_path, spans)


def test_no_file_has_lost_all(tmp_path, spans):
    assert find_metrics_gaps(tmp_path, spans) == (MetricsGap(1, 6, 12, 12),)
    assert has_lost_metrics(tmp_path, spans)


def test_a_changed_byte_is_a_gap_of_no_lines(tmp_path, lines, spans):
    write(tmp_path, [*lines[:4], lines[4].replace('"value": 1.0', '"value": 1.5'), *lines[5:]])

    (gap,) = find_metrics_gaps(tmp_path, spans)
    assert gap == MetricsGap(3, 4, 4, 0)
    assert "were changed" in str(gap)


def test_the_lines_up_to_an_epoch_are_summed_as_they_were_counted(tmp_path, lines, spans):
    write(tmp_path, lines)

    assert sum_lines(tmp_path, 2) == (spans[0].lines, spans[0].checksum)


def test_lines_of_later_epochs_are_counted_again_from_the_file(tmp_path, lines, spans):
    write(tmp_path, lines)
    tally = MetricsTally()
    tally.add(9, line(9))

    tally.recount(tmp_path / "metrics.jsonl", 4)

    assert tally.take(9) == (spans[2].lines, spans[2].checksum)
