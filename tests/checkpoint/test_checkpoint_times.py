from __future__ import annotations

from jobrun.checkpoint.checkpoint_times import (
    NodeSave,
    SavePause,
    build_save_times,
    build_times,
)
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.core.events import CheckpointTimes, NodeTime

DIGEST = "sha256:" + "0" * 64


def stored(node, size_bytes, seconds):
    return StoredFile(node, f"{node}.h5", size_bytes, DIGEST, seconds)


def test_the_slowest_node_is_named_and_its_time_is_that_of_the_epoch():
    files = [stored("a", 3_000_000, 0.5), stored("b", 1_000_000, 2.0)]

    assert build_times("save", 4, files) == CheckpointTimes(
        "save",
        4,
        4_000_000,
        2.0,
        2.0,
        "b",
        (NodeTime("a", 3_000_000, 0.5, 6.0), NodeTime("b", 1_000_000, 2.0, 0.5)),
    )


def test_first_of_equally_slow_nodes_is_named():
    assert build_times("load", 1, [stored("b", 1, 0.5), stored("a", 1, 0.5)]).slowest == "b"


def test_no_time_has_no_speed_and_no_file_no_slowest_node():
    assert build_times("save", 0, [stored("a", 5, 0.0)]).megabytes_per_s == 0.0
    assert build_times("save", 0, []) == CheckpointTimes("save", 0, 0, 0.0, 0.0, "", ())


def test_written_bytes_are_reported_per_node_and_in_total():
    files = [
        StoredFile("a", "a.h5", 3_000, DIGEST, 0.5, written_bytes=1_000),
        StoredFile("b", "b.h5", 2_000, DIGEST, 0.5, written_bytes=2_000),
    ]

    times = build_save_times(3, map(NodeSave, files), SavePause(), 0.0)

    assert [node.written_bytes for node in times.nodes] == [1_000, 2_000]
    assert times.written_bytes == 3_000
