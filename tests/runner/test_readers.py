from __future__ import annotations

import numpy as np
import pytest

from jobrun.runner.preflight import preflight
from jobrun.runner.readers import reader_faults
from tests.support.compiling import compile_text

_SPEC = """\
nodes: {{n: {{count: 4}}}}
init: [{{task: i, node: n, steps: [w = 1.0]}}]
readers: {{r: {{npz: a.npz, {keys}}}}}
epoch: [{{task: t, node: n, read: r, instances: 2, steps: [y = x]}}]
"""


def _faults(folder, keys, look=reader_faults):
    job = compile_text(folder, _SPEC.format(keys=keys)).job
    return [(fault.code, fault.path) for fault in look(job, folder)]


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((6, 2)), y=np.zeros(7), one=np.float64(1))
    return tmp_path


def test_sound_files_have_no_faults(folder):
    assert _faults(folder, "fields: [x]") == []
    assert _faults(folder, "fields: [x], shard: node") == []


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("fields: [x, y]", "E288"),
        ("fields: {x: one}", "E288"),
        ("fields: [x], shard: instance", "E232"),
    ],
)
def test_what_no_run_could_get_over_is_told_before(folder, keys, code):
    assert _faults(folder, keys) == [(code, "readers.r")]
    assert (code, "readers.r") in _faults(folder, keys, preflight)


def test_files_and_members_that_are_missing_are_told_as_those_of_loads(folder):
    assert _faults(folder, "fields: {x: nope}", preflight) == [("E281", "readers.r")]
    (folder / "a.npz").unlink()
    assert _faults(folder, "fields: [x]", preflight) == [("E372", "readers.r")]
