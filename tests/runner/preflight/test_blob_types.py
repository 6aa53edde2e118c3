"""Headers of data files tell what fits, and nothing of files that are still to be written."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.cli.run_command import invoke
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import Fault, SpecError
from jobrun.runner.preflight.blob_types import check_types, infer_header_types
from jobrun.runner.preflight.checks import preflight, raise_errors, raise_spec_errors
from jobrun.spec.load import load_spec

SPEC = """\
jobrun: 1
name: typed
init:
  - task: data
    steps:
      - load: {{X: x.npy}}
      {more}
      - w = zeros(4)
epoch: [{{task: fit, steps: ['y = X @ w']}}]
stop: [{{epochs: 1}}]
"""


@pytest.fixture
def spec(tmp_path):
    """A spec whose file does not fit, with a further step of init."""

    def write(more="- u = 1"):
        np.save(tmp_path / "x.npy", np.ones((5, 3), np.float32))
        path = tmp_path / "typed.yaml"
        path.write_text(SPEC.format(more=more))
        return path

    return write


def _job(path):
    return compile_job(load_spec(str(path))).job


def _checked(path):
    job = _job(path)
    return check_types(job, infer_header_types(job, path.parent))


def test_fault_caused_by_a_file_has_its_position(spec):
    path = spec()

    (fault,) = _checked(path)

    assert (fault.code, fault.severity) == ("E290", "error")
    assert "(5, 3) and (4,)" in fault.message
    assert (fault.where.line, fault.path) == (9, "epoch/fit/steps[0]")


def test_missing_data_file_gives_no_type_fault(spec):
    path = spec()
    (path.parent / "x.npy").unlink()

    assert _checked(path) == ()


def test_data_file_written_by_the_job_gives_no_type_fault(spec):
    path = spec("- save: {X: x.npy}")

    assert _checked(path) == ()


def test_a_file_that_a_program_may_write_makes_a_warning(spec):
    path = spec("- run: 'true'")

    (fault,) = _checked(path)

    assert fault.severity == "warning"


def test_known_blob_types_have_dtype_shape_and_bytes(spec):
    path = spec()

    types = infer_header_types(_job(path), path.parent)

    assert types.owned["local", "X"].size_bytes == 60
    assert types.task_blobs["init/data", "w"].shape == (4,)


def test_it_is_a_fault_of_the_spec_before_anything_runs(spec):
    path = spec()
    faults = preflight(_job(path), path.parent)

    with pytest.raises(SpecError):
        raise_errors(faults)
    with pytest.raises(SpecError):
        raise_spec_errors(faults)
    raise_spec_errors((Fault("E372", "no data file", "make it"),))


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_every_command_refuses_it(spec, capsys, command, tmp_path, monkeypatch):
    path = spec()
    monkeypatch.chdir(tmp_path)

    assert invoke([command, str(path)]) == 3

    assert "error[E290]" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
