from __future__ import annotations

import numpy as np
import pytest

from jobrun.runner.preflight.checks import check_readers, preflight
from tests.support.compiling import compile_text

_SPEC = """\
nodes: {{n: {{count: 4}}}}
init: [{{task: i, node: n, steps: [w = 1.0]}}]
readers: {{r: {{npz: a.npz, {keys}}}}}
epoch: [{{task: t, node: n, read: r, instances: 2, steps: [y = x]}}]
"""


def _faults(folder, keys, look=check_readers):
    job = compile_text(folder, _SPEC.format(keys=keys)).job
    return [(fault.code, fault.path) for fault in look(job, folder)]


@pytest.fixture
def folder(tmp_path):
    n = np.array([2, 0, 1, 1, 3, 0])
    np.savez(
        tmp_path / "a.npz",
        x=np.zeros((6, 2)),
        y=np.zeros(7),
        one=np.float64(1),
        n=n,
        f=n * 1.0,
        n2=n[:, None],
        few=n[:5],
    )
    return tmp_path


def test_sound_files_have_no_faults(folder):
    assert _faults(folder, "fields: [x]") == []
    assert _faults(folder, "fields: [x], shard: node") == []
    assert _faults(folder, "fields: {x: {values: y, lengths: n}, z: x}, shard: node") == []


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("fields: [x, y]", "E288"),
        ("fields: {x: one}", "E288"),
        ("fields: [x], shard: instance", "E232"),
        ("fields: {x: {values: y, lengths: f}}", "E514"),
        ("fields: {x: {values: y, lengths: n2}}", "E514"),
        ("fields: {x: {values: one, lengths: n}}", "E288"),
        ("fields: {x: {values: y, lengths: one}}", "E288"),
        ("fields: {x: x, y: {values: y, lengths: few}}", "E288"),
        ("fields: {x: {values: y, lengths: few}}, shard: instance", "E232"),
    ],
)
def test_preflight_reports_faults_that_no_run_could_survive(folder, keys, code):
    assert _faults(folder, keys) == [(code, "readers.r")]
    assert (code, "readers.r") in _faults(folder, keys, preflight)


def test_missing_reader_files_are_faults_like_those_of_loads(folder):
    assert _faults(folder, "fields: {x: nope}", preflight) == [("E281", "readers.r")]
    for pair in ("{values: nope, lengths: n}", "{values: y, lengths: nope}"):
        assert _faults(folder, f"fields: {{x: {pair}}}", preflight) == [("E281", "readers.r")]
    (folder / "a.npz").unlink()
    assert _faults(folder, "fields: [x]", preflight) == [("E372", "readers.r")]
