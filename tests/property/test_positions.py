"""A job resumed from any epoch sees exactly the records that it would have seen."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.values.compare import same_bits
from tests.support.conformance import Trial
from tests.support.thinning import examples

ROWS = 23


@st.composite
def _readers(draw):
    batch = draw(st.sampled_from([None, 1, 4, 23, 30]))
    keys = {
        "batch": batch,
        "drop_last": draw(st.booleans()) if batch else None,
        "limit": draw(st.sampled_from([None, 0, 1, 3, 6])),
        "shuffle": draw(st.booleans()),
        "restart": draw(st.sampled_from(["epoch", "never"])),
        "shard": draw(st.sampled_from(["none", "node", "instance"])),
    }
    given_keys = {key: value for key, value in keys.items() if value is not None}
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in given_keys.items())


def _spec(reader: str, source: str, nodes: int, instances: int) -> str:
    return f"""
        seed: 11
        nodes: {{n: {{count: {nodes}}}}}
        readers:
          r: {{{source}, {reader}}}
        init:
          - task: data
            node: "n_*"
            steps:
              - X = arange({ROWS})
              - N = (X * 7) % 5
              - V = arange(sum(N))
              - seen = counter(0)
              - weighted = counter(0)
              - drawn = counter(0)
        epoch:
          - task: t
            node: "n_*"
            read: r
            instances: {instances}
            steps:
              - y = reshape(x, -1) + 1
              - atomic_add(seen, y.size)
              - atomic_add(weighted, epoch * sum(y))
              - atomic_add(drawn, sum(y * y) * rng.integers(0, 100))
        stop: [{{epochs: 4}}, {{endless: true}}]  # also without records
        """


_ARGUMENTS = (
    _readers(),
    st.sampled_from(
        [
            "blobs: {x: X}",
            f"counter: {{stop: {ROWS}}}, fields: [x]",
            "blobs: {v: V, n: N}, fields: {x: {values: v, lengths: n}, n: n}",
        ]
    ),
    st.integers(1, 2),
    st.integers(1, 3),
)


def _check(reader, source, nodes, instances):
    folder = Path(tempfile.mkdtemp())
    try:
        trial = Trial(folder, _spec(reader, source, nodes, instances))
        trial.start()
        unbroken = trial.state(4)
        for epoch in (3, 1, 0, 2):
            trial.resume(epoch)
            resumed = trial.state(4)
            assert resumed.keys() == unbroken.keys()
            different = [n for n in unbroken if not same_bits(unbroken[n], resumed[n])]
            assert different == [], f"resumed from {epoch}"
    finally:
        shutil.rmtree(folder)


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(*_ARGUMENTS)
def test_a_run_resumed_from_any_epoch_ends_as_the_unbroken_one(reader, source, nodes, instances):
    _check(reader, source, nodes, instances)


@pytest.mark.long
@settings(max_examples=examples(8), deadline=None)
@given(*_ARGUMENTS)
def test_many_runs_resumed_from_any_epoch_end_as_unbroken_ones(reader, source, nodes, instances):
    _check(reader, source, nodes, instances)
