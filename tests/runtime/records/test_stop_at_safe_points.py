"""Safe points between two records: what is kept there, and how a run is entered again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import ignore
from jobrun.graph.types import Cluster
from jobrun.runtime.context.rng import StreamKey, make_stream
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.runtime.records.stop_at_safe_points import _restore_stream, _settle, _stream_state
from jobrun.session.base import GroupCancelledError, RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec
from tests.support.mid_epoch_job import Stand


@pytest.fixture
def job(tmp_path):
    return compile_job(load_spec(str(Stand(tmp_path).spec))).job


@pytest.fixture
def session(tmp_path, job):
    session = ThreadsSession()
    assert isinstance(job.cluster, Cluster)
    session.open(job.cluster, RunContext(5, str(tmp_path), str(tmp_path), ignore))
    session.run(job.init, 0, {})
    yield session
    session.close()


def _points(session, job, every, most=100):
    collected = []

    def reached(point):
        collected.append(point)
        return len(collected) < most

    try:
        session.run(job.epoch, 1, {}, SafePointHooks(every, reached))
    except GroupCancelledError:
        assert len(collected) == most
    return collected


def test_they_come_after_each_such_number_of_records(session, job):
    assert [point.records for point in _points(session, job, 6)] == [6, 12]


def test_false_ends_the_run_there(session, job):
    assert [point.records for point in _points(session, job, 3, most=2)] == [3, 6]


def test_all_blobs_are_in_boundary_form(session, job):
    (point,) = _points(session, job, 12)

    created = point.blobs["t"]["T"]
    assert created.shape == (3, 4)
    assert created.flags.f_contiguous
    assert created.flags.owndata


def test_no_two_blobs_share_memory(session, job):
    (point,) = _points(session, job, 12)

    arrays = [v for blob in point.blobs.values() for v in blob.values() if type(v) is np.ndarray]
    for at, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[at + 1 :])


def test_the_random_streams_in_use_are_listed_by_block(session, job):
    (point,) = _points(session, job, 12)

    assert "epoch/fit" in point.streams
    assert point.streams["epoch/fit"]["bit_generator"] == "PCG64DXSM"


def test_a_stream_keeps_how_many_children_it_has_spawned():
    stream = make_stream(5, StreamKey("epoch", 1, "local", "fit", 0, "epoch/fit"))
    stream.spawn(2)
    restored = _restore_stream(json.loads(json.dumps(_stream_state(stream))))

    assert restored.spawn(1)[0].random() == stream.spawn(1)[0].random()
    assert restored.random() == stream.random()


def test_the_readers_place_is_in_records_and_rows(session, job):
    (point,) = _points(session, job, 12)

    assert point.cursors == ((12, 36),)


def test_an_object_cannot_be_saved_within_an_epoch():
    with pytest.raises(TaskFailedError) as caught:
        _settle({"w": 1, "random": np.random.default_rng(1)}, set(), None)

    (fault,) = caught.value.faults
    assert fault.code == "E245"
    assert "'random'" in fault.message
