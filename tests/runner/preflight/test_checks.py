"""What is missing, seen before anything runs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError, Origin
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Builtin, Text
from jobrun.graph.steps import CallPython, DataFile, If, Load, RunProgram, Save
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner.preflight.checks import preflight, raise_errors

WHERE = Origin("j.yaml", 3, 7)


def job(*steps):
    groups = {name: TaskGroup(name) for name in ("epoch", "download", "exit")}
    init = TaskGroup("init", (Task("t", "n", steps),))
    return Job("j", Cluster((Node("n"),)), init, **groups)


def load(path, member=""):
    file = DataFile("x", Text((path,)), member)
    return Load((file,), path="init/t/steps[0]", origin=WHERE)


def call(target):
    return CallPython(target, origin=WHERE)


def faults_of(tmp_path, *steps, **options):
    return [(fault.code, fault.severity) for fault in preflight(job(*steps), tmp_path, **options)]


def test_a_job_whose_files_are_there_has_no_faults(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    np.savez(tmp_path / "x.npz", data=np.ones(3))

    assert faults_of(tmp_path, load("x.npy"), load("x.npz", "data")) == []


def test_a_missing_file_is_a_fault_with_its_place_and_the_nearest_name(tmp_path):
    (tmp_path / "digits.npz").touch()

    [fault] = preflight(job(load("digit.npz", "data")), tmp_path)

    assert (fault.code, fault.where, fault.path) == ("E372", WHERE, "init/t/steps[0]")
    assert "did you mean 'digits.npz'" in fault.mend


def test_missing_file_error_lists_only_data_files(tmp_path):
    (tmp_path / "job.yaml").touch()
    (tmp_path / "other.csv").touch()

    [fault] = preflight(job(load("digit.npz", "data")), tmp_path)
    assert fault.mend == "known here: other.csv"

    (tmp_path / "other.csv").unlink()
    [fault] = preflight(job(load("digit.npz", "data")), tmp_path)
    assert fault.mend == f"put it into {tmp_path}"


def test_a_missing_member_is_a_fault(tmp_path):
    np.savez(tmp_path / "x.npz", data=np.ones(3))

    [fault] = preflight(job(load("x.npz", "dat")), tmp_path)

    assert fault.where == WHERE


def test_a_file_that_is_no_data_is_a_fault(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY half")

    assert len(faults_of(tmp_path, load("x.npy"))) == 1


def test_a_file_that_another_step_may_make_is_a_warning_at_most(tmp_path):
    save = Save((DataFile("x", Text(("made.npy",))),))
    run = RunProgram((Text(("true",)),))

    assert faults_of(tmp_path, save, load("made.npy")) == []
    assert faults_of(tmp_path, run, load("x.npy")) == [("E372", "warning")]


def test_a_path_that_is_filled_in_at_run_time_is_not_looked_at(tmp_path):
    step = Load((DataFile("x", Text((Builtin("run.dir"), "/x.npy"))),))

    assert faults_of(tmp_path, step) == []


def test_steps_inside_branches_are_looked_at(tmp_path):
    assert faults_of(tmp_path, If((), (load("x.npy"),))) == [("E372", "error")]


def test_a_callable_is_looked_for_and_not_imported(tmp_path):
    (tmp_path / "never_imported.py").write_text("raise SystemExit\ndef step(): pass\n")

    assert faults_of(tmp_path, call("never_imported:step")) == []
    assert "never_imported" not in sys.modules


def test_a_missing_module_or_function_is_a_fault(tmp_path):
    (tmp_path / "mine.py").write_text("def step(): pass\n")

    faults = preflight(job(call("nosuch:step"), call("mine:stepp")), tmp_path)

    assert [fault.code for fault in faults] == ["E374", "E392"]
    assert "no module 'nosuch'" in faults[0].message
    assert "did you mean 'step'" in faults[1].mend


def test_a_file_in_place_of_a_module_is_named_without_its_ending(tmp_path):
    (fault,) = preflight(job(call("mine.py:step")), tmp_path)

    assert fault.mend == "write 'mine:step', without '.py'"


def test_row_74_an_import_error_is_found_when_imports_are_asked_for(tmp_path):
    (tmp_path / "breaks.py").write_text("import nosuchthing\ndef step(): pass\n")
    path = list(sys.path)

    [fault] = preflight(job(call("breaks:step")), tmp_path, imports=True)

    assert "No module named 'nosuchthing'" in fault.message
    assert sys.path == path


def test_a_program_that_is_not_there_is_a_warning(tmp_path):
    there, missing = (RunProgram((Text((name,)),)) for name in ("sh", "no-such-program"))

    assert faults_of(tmp_path, there, missing) == [("W180", "warning")]


def test_errors_are_refused_all_together_and_warnings_are_not(tmp_path):
    raise_errors(preflight(job(RunProgram((Text(("no-such-program",)),))), tmp_path))

    with pytest.raises(EnvironmentFaultError) as raised:
        raise_errors(preflight(job(load("a.npy"), load("b.npy")), tmp_path))
    assert len(raised.value.faults) == 2
    assert raised.value.exit_code == 7


@pytest.mark.parametrize(
    "rules", [(("*", "zstd"),), (("w", "none"), ("*", "deflate"), ("v", "lz4"))]
)
def test_codec_without_its_package_is_a_fault(rules, tmp_path, monkeypatch):
    policy = CheckpointPolicy(compression=rules, compression_at=WHERE)
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)

    (fault,) = preflight(replace(job(), checkpoint=policy), tmp_path)

    assert (fault.code, fault.severity, fault.where) == ("E326", "error", WHERE)
    assert rules[-1][1] in fault.message
    assert "pip install 'jobrun[hdf5plugin]'" in fault.mend


def test_deflate_needs_no_package(tmp_path, monkeypatch):
    policy = CheckpointPolicy(compression=(("w", "none"), ("*", "deflate")))
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)

    assert preflight(replace(job(), checkpoint=policy), tmp_path) == ()


def save(path):
    return Save((DataFile("x", Text((path,))),), path="init/t/steps[0]", origin=WHERE)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("folder.npy", "it is a directory"),
        ("file.npy/x.npy", "file.npy is a file, not a folder"),
        ("file.npy/deep/x.npy", "file.npy is a file, not a folder"),
        ("new/deep/x.npy", ""),
        ("file.npy", ""),
    ],
)
def test_a_file_that_cannot_be_made_is_a_fault(tmp_path, path, reason):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "file.npy").touch()

    faults = preflight(job(save(path)), tmp_path)

    assert [fault.code for fault in faults] == ["E285"] * bool(reason)
    assert all(reason in fault.message and fault.where == WHERE for fault in faults)


@pytest.mark.parametrize(("path", "locked"), [("old.npy", "old.npy"), ("x.npy", "")])
def test_a_file_that_may_not_be_written_is_a_fault(tmp_path, monkeypatch, path, locked):
    (tmp_path / "old.npy").touch()
    # A superuser may write everywhere.
    monkeypatch.setattr(
        "jobrun.runner.preflight.checks.os.access", lambda path, _: path != tmp_path / locked
    )

    assert faults_of(tmp_path, save(path)) == [("E285", "error")]
