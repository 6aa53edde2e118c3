"""run.json."""

from __future__ import annotations

import json

import pytest

from jobrun.core.errors import CheckpointError
from jobrun.runner.rundir.run_json import RECORD_NAME, RunRecord, read_record, write_record

RECORD = RunRecord("id-1", "kmeans", "2026-11-21T09:42:00.000000+00:00", accepted=("params.k",))


def test_record_round_trips(tmp_path):
    write_record(tmp_path, RECORD)

    assert read_record(tmp_path) == RECORD


def test_unknown_fields_of_the_same_format_are_ignored(tmp_path):
    write_record(tmp_path, RECORD)
    content = json.loads((tmp_path / RECORD_NAME).read_text())
    (tmp_path / RECORD_NAME).write_text(json.dumps({**content, "mood": "fine"}))

    assert read_record(tmp_path) == RECORD


def test_a_newer_format_is_refused_with_the_version_to_use(tmp_path):
    content = {"format": 2, "version": "9.0"}
    (tmp_path / RECORD_NAME).write_text(json.dumps(content))

    with pytest.raises(CheckpointError, match=r"jobrun 9\.0"):
        read_record(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": "1"}'])
def test_a_damaged_record_is_a_checkpoint_error(tmp_path, text):
    (tmp_path / RECORD_NAME).write_text(text)

    with pytest.raises(CheckpointError, match="is damaged") as raised:
        read_record(tmp_path)

    assert raised.value.faults[0].code == "E375"
