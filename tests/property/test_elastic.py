"""However often the number of nodes changes, rows are what they were, in their order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.write.writer import write_state
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.types import Cluster, Job, Node, StateLayout, TaskGroup
from jobrun.runner.resume.resize import plan_resize
from jobrun.runner.saved_progress import Progress, to_json
from jobrun.runtime.records.reader_position import share_bounds
from jobrun.runtime.steps.checkpoint_files import read_parts
from jobrun.values.compare import same_bits

DTYPES = ("<f8", ">f4", "<i2", "?", "<c16", "<M8[s]")


def _job(count):
    nodes = tuple(f"t_{k}" for k in range(count))
    return Job(
        "j",
        Cluster(tuple(Node(name, "t", k, count) for k, name in enumerate(nodes))),
        TaskGroup("init"),
        TaskGroup("epoch"),
        state=tuple((node, ("U", "V")) for node in nodes),
        checkpoint=CheckpointPolicy(nodes=nodes),
        layouts=(StateLayout("U", "rows"), StateLayout("V", "replicated")),
    )


def _written(folder, epoch, shares, shared):
    files = tuple(
        write_state(
            str(folder / f"t_{k}.h5"), node=f"t_{k}", epoch=epoch, run_id="r",
            values={"U": share, "V": shared},
        )
        for k, share in enumerate(shares)
    )  # fmt: skip
    return Manifest(epoch, "r", 0, files, "", to_json(Progress(epoch=epoch)))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=12, derandomize=True)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from([(), (3,), (2, 2)]),
)
def test_rows_stay_in_their_order_on_any_numbers_of_nodes(lengths, counts, dtype, shape):
    total = sum(lengths)
    whole = np.arange(total * int(np.prod(shape))).reshape(total, *shape).astype(dtype)
    stops = np.cumsum(lengths)
    shares = [whole[end - n : end].copy() for n, end in zip(lengths, stops, strict=True)]
    for epoch, count in enumerate(counts):
        with tempfile.TemporaryDirectory() as name:
            manifest = _written(Path(name), epoch, shares, 2.5)
            resize = plan_resize(_job(count), manifest, name, compare=True)
            if count == len(shares):
                assert resize.families == ()
                continue
            states = [read_parts(resize.parts[f"t_{k}"], epoch, "r") for k in range(count)]
        shares = [state["U"] for state in states]
        for k, share in enumerate(shares):
            first, stop = share_bounds(total, k, count)
            assert same_bits(share, whole[first:stop])
        assert [state["V"] for state in states] == [2.5] * count
