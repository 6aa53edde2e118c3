from __future__ import annotations

from collections import defaultdict

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from jobrun.runner.listeners.tensorboard_listener import TensorBoardListener
from jobrun.testing import listeners
from jobrun.testing.listeners import ListenerContract, listened_run


def _points(reader):
    reader.Reload()
    points = defaultdict(list)
    for name in reader.Tags()["scalars"]:
        for scalar in reader.Scalars(name):
            points[name].append((scalar.step, scalar.value))
    return dict(points)


@pytest.mark.long
class TestTensorBoard(ListenerContract):
    @pytest.fixture
    def name(self):
        return "tensorboard"

    @pytest.fixture
    def read(self):
        return lambda run: _points(EventAccumulator(str(run.directory / "tensorboard")))


def test_open_tensorboard_sees_new_points_and_forgets_lost_ones(tmp_path):
    run = listened_run(tmp_path)
    first = TensorBoardListener()
    first.begin(run, [])
    reader = EventAccumulator(str(run.directory / "tensorboard"))
    for epoch in (1, 2, 3):
        first.record(listeners._metrics(str(epoch), {"loss": 0.5}))
    assert _points(reader) == {"loss": [(1, 0.5), (2, 0.5), (3, 0.5)]}

    second = TensorBoardListener()
    second.begin(run, [listeners._metrics("1", {"loss": 0.5})])
    second.record(listeners._metrics("2", {"loss": 0.25}))

    assert _points(reader) == {"loss": [(1, 0.5), (2, 0.25)]}
    fresh = EventAccumulator(str(run.directory / "tensorboard"))
    assert _points(fresh) == {"loss": [(1, 0.5), (2, 0.25)]}
    first.end("failed")
    second.end("finished")
