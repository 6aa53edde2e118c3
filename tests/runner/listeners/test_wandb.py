from __future__ import annotations

import json
import struct
from collections import defaultdict

import pytest

from jobrun.testing.listeners import ListenerContract, finite, listened_run, start

pytestmark = pytest.mark.long

# The log format of LevelDB, behind a header of seven bytes.
_HEADER, _BLOCK, _ENTRY = 7, 32768, 7
_WHOLE, _LAST = 1, 4


def _records(data):
    at, part = _HEADER, b""
    while at + _ENTRY <= len(data):
        room = _BLOCK - at % _BLOCK
        if room < _ENTRY:
            at += room
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        at += _ENTRY
        part += data[at : at + size]
        at += size
        if kind in (_WHOLE, _LAST):
            yield part
            part = b""


def _read(folder):
    """Return the points of the one offline run in a folder, and its id."""
    # A second of imports: not where other tests are collected.
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    (path,) = folder.glob("offline-run-*/*.wandb")
    points = defaultdict(list)
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for name, value in row.items():
            if isinstance(value, int | float) and name != "epoch" and name[0] != "_":
                points[name].append((record.history.step.num, float(value)))
    return dict(points), path.stem


class TestWandb(ListenerContract):
    @pytest.fixture
    def name(self):
        return "wandb"

    @pytest.fixture
    def read(self):
        return lambda run: _read(run.directory / "wandb")[0]


def test_synced_run_is_kept_and_the_next_gets_another_id(tmp_path):
    run = listened_run(tmp_path)
    start("wandb", run, {}, {1: {"loss": 0.5}, 2: {"loss": 0.5}})
    (first,) = (run.directory / "wandb").glob("offline-run-*")
    (path,) = first.glob("*.wandb")
    # As 'wandb sync' leaves it.
    path.with_name(f"{path.name}.synced").touch()

    start("wandb", run, {1: {"loss": 0.5}}, {2: {"loss": 0.25}})

    aside = tmp_path / "aside"
    aside.mkdir()
    first.rename(aside / first.name)
    assert finite(_read(run.directory / "wandb")[0]) == {"loss": [(1, 0.5), (2, 0.25)]}
    assert _read(run.directory / "wandb")[1] != _read(aside)[1]
