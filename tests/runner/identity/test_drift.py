"""Drift, between real specs."""

from __future__ import annotations

import pytest

from jobrun.core.errors import DriftError, Fault
from jobrun.runner.identity.drift import (
    Change,
    compare_data,
    compare_mappings,
    compare_numerics,
    compare_specs,
    count_field,
    mark_safe_counts,
    require_no_drift,
)
from jobrun.spec.load import load_spec

SPEC = """\
jobrun: 1
name: j
params:
  lr: 0.1
  n: {type: int, default: 3, drift: safe}
init:
  - task: a
    steps: ["w = 1.0"]
epoch:
  - task: b
    steps:
      - w -= lr * n
      - log: "w {w}"
stop:
  - epochs: ${n}
"""


@pytest.fixture
def changes(tmp_path):
    def between(*edits, overrides=()):
        text = SPEC
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "old.yaml").write_text(SPEC)
        (tmp_path / "new.yaml").write_text(text)
        recorded = load_spec(str(tmp_path / "old.yaml"))
        present = load_spec(str(tmp_path / "new.yaml"), overrides=overrides)
        return compare_specs(recorded, present)

    return between


def kinds(changes):
    return {change.field: change.kind for change in changes}


def test_the_same_spec_has_no_changes(changes):
    assert changes() == ()


@pytest.mark.parametrize(
    "edit",
    [
        ("jobrun: 1\n", "# a comment\njobrun: 1\n"),
        ("jobrun: 1\nname: j\n", "name: j\njobrun: 1\n"),
        ("name: j\n", "name: j\nseed: 0\n"),
        ("name: j\n", "name: j\ncheckpoint: {on_error: fail}\n"),
        ("lr: 0.1", "lr: {type: float, default: 0.1, help: the rate}"),
        ('["w = 1.0"]', "\n      - w = 1.0"),
    ],
)
def test_comments_order_and_written_out_defaults_never_count(changes, edit):
    assert changes(edit) == ()


@pytest.mark.parametrize(
    ("edit", "field", "kind"),
    [
        (("epochs: ${n}", "epochs: 9"), "stop[0].epochs", "safe"),
        (("name: j\n", "name: j\ndescription: x\n"), "description", "safe"),
        (("name: j\n", "name: j\nmetrics: {w: w}\n"), "metrics", "safe"),
        (("name: j\n", "name: j\ncheckpoint: {every: 5ep}\n"), "checkpoint", "safe"),
        (("name: j\n", "name: j\ncheckpoint: {every: 5 records}\n"), "checkpoint", "numerics"),
        (("  - task: b\n", "  - task: b\n    timeout: 5m\n"), "epoch[0].timeout", "safe"),
        (("  - task: b\n", "  - task: b\n    retry: {max: 2}\n"), "epoch[0].retry", "safe"),
        (("  - task: b\n", "  - task: b\n    hogwild: true\n"), "epoch[0].hogwild", "semantic"),
        (('log: "w {w}"', 'log: "{w}"'), "epoch[0].steps[1].log", "safe"),
        (("n: {type: int, default: 3,", "n: {type: int, default: 4,"), "params.n", "declared safe"),
        (("name: j\n", "name: j\nblas_threads: 2\n"), "blas_threads", "numerics"),
        (("lr: 0.1", "lr: 0.2"), "params.lr", "semantic"),
        (("name: j\n", "name: j\nseed: 8\n"), "seed", "semantic"),
        (("w = 1.0", "w = 2.0"), "init[0].steps[0]", "semantic"),
    ],
)
def test_each_change_has_its_class(changes, edit, field, kind):
    assert kinds(changes(edit)) == {field: kind}


@pytest.mark.parametrize(
    ("edits", "kind"),
    [
        (("{every: 5ep}", "{every: 2ep}"), "safe"),
        (("{every: 5ep}", "{every: 9 records}"), "numerics"),
        (("{every: 5 records}", "{every: 9 records}"), "numerics"),
        (("{every: 5 records}", "{every: 5 records, keep: {last: 3}}"), "safe"),
    ],
)
def test_moving_mid_epoch_saves_is_a_semantic_change(tmp_path, edits, kind):
    loaded = []
    for number, edit in enumerate(edits):
        path = tmp_path / f"{number}.yaml"
        path.write_text(SPEC.replace("name: j\n", f"name: j\ncheckpoint: {edit}\n"))
        loaded.append(load_spec(str(path)))

    assert [change.kind for change in compare_specs(*loaded)] == [kind]


def test_row_29_a_semantic_change_is_refused_field_by_field_with_its_place(changes):
    drift = changes(("w = 1.0", "w = 2.0"), overrides=("params.lr=0.5",))

    with pytest.raises(DriftError) as raised:
        require_no_drift(drift)

    assert raised.value.exit_code == 5
    faults = {fault.path: fault for fault in raised.value.faults}
    assert set(faults) == {"params.lr", "init[0].steps[0]"}
    assert faults["init[0].steps[0]"].where.line == 8
    assert "was w = 1.0, is w = 2.0" in faults["init[0].steps[0]"].message
    assert faults["params.lr"].where.file == "--set #1"
    assert "--accept-drift params.lr" in faults["params.lr"].mend


@pytest.mark.parametrize(
    ("accept", "refused"),
    [
        (("init", "params.lr"), []),
        (("init[0]",), ["params.lr"]),
        (("ini",), ["init[0].steps[0]", "params.lr"]),
    ],
)
def test_accepting_a_field_accepts_fields_below_it(changes, accept, refused):
    drift = changes(("w = 1.0", "w = 2.0"), ("lr: 0.1", "lr: 0.2"))

    try:
        require_no_drift(drift, accept=accept)
        remaining = []
    except DriftError as error:
        remaining = sorted(fault.path for fault in error.faults)

    assert remaining == refused


def test_another_gpu_is_numerics():
    (change,) = compare_numerics({"gpus": ["NVIDIA H100"]}, {"gpus": ["NVIDIA A100"]})

    assert change.kind == "numerics"


def test_a_variable_of_a_library_that_has_changed_is_numerics_and_shown_by_itself():
    changes = compare_numerics(
        {"variables": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "JAX_ENABLE_X64": "1"}},
        {"variables": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "XLA_FLAGS": "--fast"}},
    )

    assert {str(change): change.kind for change in changes} == {
        "numerics.JAX_ENABLE_X64: was 1, is not there": "numerics",
        "numerics.XLA_FLAGS: was not there, is --fast": "numerics",
    }


def test_row_30_other_numerics_warn_and_are_refused_only_when_strict():
    drift = compare_numerics(
        {"numpy": "2.4.6", "python": "3.11.2", "blas_threads": 1, "h5py": "3.10"},
        {"numpy": "2.5.0", "python": "3.11.7", "blas_threads": 1, "h5py": "3.16", "blas": "x"},
    )

    assert kinds(drift) == {"numerics.numpy": "numerics", "numerics.h5py": "safe"}
    assert require_no_drift(drift) == drift
    with pytest.raises(DriftError, match=r"was 2\.4\.6, is 2\.5\.0") as raised:
        require_no_drift(drift, strict=True)
    assert raised.value.faults[0].code == "E370"


def test_digests_are_compared_by_name():
    drift = compare_mappings(
        "callables", {"m:f": "sha256:1", "m:g": "sha256:2"}, {"m:f": "sha256:1"}
    )

    assert [str(change) for change in drift] == ["callables.m:g: was sha256:2, is not there"]


def test_data_drift_shows_size_and_digest_but_no_time():
    known = {"size_bytes": 9, "mtime_ns": 1, "digest": "sha256:1"}

    assert compare_data({"a": known}, {"a": {**known, "mtime_ns": 2}}) == ()
    assert compare_data({"a": known}, {"b": known}) == ()
    (change,) = compare_data({"a": known}, {"a": {**known, "digest": "sha256:2"}})
    assert str(change) == "data.a: was 9 bytes, sha256:1, is 9 bytes, sha256:2"


def test_explanation_of_two_changes_of_a_field_appears_once():
    changes = (Change("nodes.w.count", "semantic", "2", "4"),) * 2
    fault = Fault("E388", "'V' is not the same on all nodes", "make it so")

    with pytest.raises(DriftError) as caught:
        require_no_drift(changes, explained={"nodes.w.count": (fault,)})

    assert caught.value.faults == (fault,)


def test_suggested_commands_follow_the_last_fault():
    changes = compare_mappings("env", {"A": "1", "B": "1"}, {"A": "2", "B": "2"})

    with pytest.raises(DriftError) as raised:
        require_no_drift(changes, commands=("jobrun resume r", "jobrun fork r"))

    first, last = raised.value.faults
    assert "--accept-drift env.A" in first.mend
    assert "jobrun resume r --accept-drift env.A --accept-drift env.B · " in last.mend
    assert last.mend.endswith("jobrun fork r")


def test_another_h5py_version_is_noted_and_never_refused():
    (change,) = compare_numerics({"h5py": "3.1"}, {"h5py": "3.2"})

    assert change.kind == "safe"
    assert require_no_drift((change,), strict=True) == (change,)


def test_another_number_of_processors_changes_no_bits():
    assert compare_numerics({"processors": 2}, {"processors": 64}) == ()


def test_only_the_count_of_such_nodes_is_declared_safe():
    changes = tuple(
        Change(field, "semantic", "1", "2")
        for field in (count_field("t"), count_field("u"), "seed")
    )

    kinds = [change.kind for change in mark_safe_counts(changes, {"t"})]
    assert kinds == ["declared safe", "semantic", "semantic"]
