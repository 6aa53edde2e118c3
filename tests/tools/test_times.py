from __future__ import annotations

from jobrun.core.events import CheckpointTimes, NodeTime
from jobrun.tools.inspection import saved_times
from tests.support.sample_events import written

NODES = (NodeTime("a", 10, 0.5, 0.0),)


def times(epoch, seconds=0.5, action="save"):
    return CheckpointTimes(action, epoch, 10, seconds, 0.0, "a", NODES)


def log(path, *entries):
    lines = [written(event, generation=made) for event, made in entries]
    (path / "events.jsonl").write_text("".join(lines) + '{"event": "CheckpointTimes", "ep')


def test_the_times_of_a_save_are_those_of_its_epoch_and_generation(tmp_path):
    log(tmp_path, (times(1), 0), (times(2, 0.7), 0), (times(2, 0.9), 1), (times(2, 5.0, "load"), 1))

    assert saved_times(tmp_path, 2, 0) == times(2, 0.7)
    assert saved_times(tmp_path, 2, 1) == times(2, 0.9)


def test_of_an_epoch_that_was_saved_again_the_last_counts(tmp_path):
    log(tmp_path, (times(1, 0.1), 0), (times(1, 0.2), 0))

    assert saved_times(tmp_path, 1, 0) == times(1, 0.2)


def test_without_a_log_or_an_entry_nothing_is_known(tmp_path):
    assert saved_times(tmp_path, 1, 0) is None
    log(tmp_path, (times(1), 0))
    assert saved_times(tmp_path, 3, 0) is None
