"""Random pipelines give what plain Python gives: nothing lost, doubled, overtaken or stuck."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.core.errors import TaskFailedError
from tests.support.pipelines import Pipeline, Stage, run_pipeline
from tests.support.thinning import examples


@st.composite
def pipelines(draw, trouble: bool = False) -> Pipeline:
    counts = tuple(draw(st.lists(st.integers(0, 25), min_size=1, max_size=3)))
    stages: list[Stage] = []
    records = [*range(sum(counts))]
    writers = len(counts)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.sampled_from(records)) if trouble and records else -1
        kind = draw(st.sampled_from(["none", "none", "fails", "ends"]))
        stage = Stage(
            draw(st.integers(1, 4)),
            draw(st.integers(1, 5)),
            # One task numbers its records; several have no order between them.
            ordered=draw(st.booleans()) and (bool(stages) or writers == 1),
            drops=draw(st.sampled_from([0, 0, 2, 3])),
            fails_at=at if kind == "fails" else -1,
            ends_at=at if kind == "ends" else -1,
        )
        stages.append(stage)
        records = [3 * x + 1 for x in records if not stage.drops or x % stage.drops]
    return Pipeline(counts, tuple(stages))


def run(pipeline: Pipeline) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        return run_pipeline(pipeline, Path(folder))


def check_sound(pipeline: Pipeline) -> None:
    expected, _ = pipeline.expected()

    seen = run(pipeline)

    assert (seen if pipeline.in_order else sorted(seen)) == (
        expected if pipeline.in_order else sorted(expected)
    )


def check_troubled(pipeline: Pipeline) -> None:
    """What a stage does at one record does not always happen: an end before it may come first."""
    expected, odd = pipeline.expected()
    failing = {number for number in odd if pipeline.stages[number].fails_at >= 0}
    ending = odd - failing
    try:
        seen = run(pipeline)
    except TaskFailedError as error:
        paths = {fault.path.split("/")[1] for fault in error.faults}
        names = {"last" if n == len(pipeline.stages) - 1 else f"stage{n}" for n in failing}
        assert paths <= names
        return
    assert not failing or ending
    assert not Counter(seen) - Counter(expected)
    if pipeline.in_order:
        # Instances beside the one that ended it may have come further.
        seen_records = set(seen)
        assert seen == [x for x in expected if x in seen_records]
    if pipeline.in_order and all(stage.instances == 1 for stage in pipeline.stages):
        assert seen == expected[: len(seen)]
    if not odd:
        assert sorted(seen) == sorted(expected)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(pipelines())
def test_every_record_arrives_once_and_in_order_where_there_is_one(pipeline):
    check_sound(pipeline)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(pipelines(trouble=True))
def test_failures_and_early_ends_end_the_pipeline(pipeline):
    check_troubled(pipeline)


@pytest.mark.long
@settings(max_examples=examples(200), deadline=None)
@given(pipelines())
def test_every_record_arrives_once_in_many_pipelines(pipeline):
    check_sound(pipeline)


@pytest.mark.long
@settings(max_examples=examples(200), deadline=None)
@given(pipelines(trouble=True))
def test_failures_and_early_ends_end_many_pipelines(pipeline):
    check_troubled(pipeline)
