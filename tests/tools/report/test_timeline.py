"""The life of a run as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from jobrun.tools.report.run_history import Epoch, History, Invocation, Saved
from jobrun.tools.report.timeline import legend, timeline

TWO = History(
    (
        Invocation(0.0, 10.0, -1, 5, 0, "killed"),
        Invocation(100.0, 110.0, 3, 8, 1, "finished", "</svg><script>"),
    ),
    tuple(Epoch(number, 2.0 * number, 1.0, 0) for number in range(1, 6)),
    (Saved(1, 2.0, 10, 0.1), Saved(2, 4.0, 10, 0.1)),
)


def _titles(history, width=900):
    root = ElementTree.fromstring(timeline(history, width, "words"))
    return [one.text for one in root.iter("title")]


def test_ends_gaps_and_new_starts_are_marked():
    assert _titles(TWO) == [
        "killed",
        "went on from epoch 3, generation 1",
        "finished </svg><script>",
        "nothing ran for 1 m 30 s",
    ]


def test_it_is_well_formed_with_very_many_processes_on_a_narrow_screen():
    many = History(tuple(Invocation(9.0 * n, 9.0 * n + 1, n, n, 0) for n in range(500)))
    root = ElementTree.fromstring(timeline(many, 340, "words"))
    spans = [one for one in root.iter("rect") if one.get("class") == "span"]

    assert len(spans) == 60


def test_a_long_run_has_no_more_points_than_pixels():
    epochs = tuple(Epoch(n, n / 1000, 0.001, 0) for n in range(10_000))
    long = History((Invocation(0.0, 10.0, -1, 9999, 0),), epochs)

    assert len(timeline(long, 900, "words")) < 30_000


def test_a_run_that_did_nothing_is_drawn():
    assert _titles(History((Invocation(5.0, 5.0, -1, -1, 0, "failed", "why"),))) == ["failed why"]


def test_the_legend_names_each_mark():
    for word in ("a save", "finished", "failed", "killed"):
        assert word in legend()
