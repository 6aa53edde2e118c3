"""Checkpoint policy and stop conditions."""

from __future__ import annotations

import pytest

from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
from jobrun.graph.conditions import (
    Deadline,
    Endless,
    StopAfterEpochs,
    StopAfterTime,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import Compare, Const, NodeBlob
from tests.support.compiling import compile_text, fault_of, faults_of, job_of


def _policy(folder, written):
    return job_of(folder, f"metrics: {{m: w}}\ncheckpoint: {written}").checkpoint


def test_by_default_epochs_are_saved_as_they_fit_into_five_percent_and_all_are_kept(tmp_path):
    default = CheckpointPolicy(nodes=("local",))

    assert job_of(tmp_path, "").checkpoint == default
    assert _policy(tmp_path, "{every: auto}") == default
    assert _policy(tmp_path, "{every: 1ep}") == CheckpointPolicy(nodes=("local",), every_epochs=1)
    assert default.is_automatic


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("deflate", (("*", "deflate"),)), ("none", (("*", "none"),)),
        ("{'w*': zstd, '*': none}", (("w*", "zstd"), ("*", "none"))),
    ],
)  # fmt: skip
def test_compression_is_for_all_blobs_or_by_pattern(tmp_path, written, rules):
    assert _policy(tmp_path, f"{{compression: {written}}}").compression == rules


def test_an_unknown_codec_is_reported_with_the_known_ones(tmp_path):
    fault = fault_of(tmp_path, "checkpoint: {compression: gzip}")

    assert "deflate" in f"{fault.message} {fault.mend}"


def test_none_means_none(tmp_path):
    assert not _policy(tmp_path, "none").enabled


def test_all_that_is_written_comes_to_the_policy(tmp_path):
    written = (
        "{dir: here, every: 5ep, keep: {last: 3, every: 10ep, best: {metric: m, mode: max, n: 2}}, "
        "nodes: [local], on_error: warn}"
    )

    assert _policy(tmp_path, written) == CheckpointPolicy(
        directory="here",
        every_epochs=5,
        keep_last=3,
        keep_every=10,
        keep_best=("m", "max", 2),
        nodes=("local",),
        on_error="warn",
    )


def test_an_upload_is_part_of_the_policy(tmp_path):
    policy = _policy(tmp_path, "{upload: {to: there, when: committed, required: true}}")

    assert policy.upload == UploadPolicy("there", "committed", required=True)
    assert _policy(tmp_path, "{upload: {to: there}}").upload == UploadPolicy("there")


def test_a_duration_takes_the_place_of_epochs(tmp_path):
    policy = _policy(tmp_path, "{every: 10m}")

    assert (policy.every_epochs, policy.every_s) == (0, 600.0)


def test_nodes_are_those_of_init_in_the_order_of_first_use(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {a: {}, b: {}, c: {}}
        init: [{task: i, node: c, steps: [w = 1.0]}, {task: j, node: a, steps: [w = 1.0]}]
        epoch: [{task: t, node: b, steps: [x = 1]}]
        """,
    )

    assert job.checkpoint.nodes == ("c", "a")


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("{nodes: [locl]}", "E142"),
        ("{keep: {every: 10m}}", "E136"),
        ("{keep: {best: {metric: mm}}}", "E138"),
    ],
)
def test_what_is_wrong_with_a_policy_is_reported(tmp_path, written, code):
    text = f"metrics: {{m: w}}\ncheckpoint: {written}"
    faults = [fault for fault in faults_of(tmp_path, text) if fault.code != "E184"]

    assert [fault.code for fault in faults] == [code]


def test_each_stop_condition_is_lowered(tmp_path):
    job = job_of(
        tmp_path,
        """\
        metrics: {m: w}
        stop:
          - epochs: 7
          - when: w > 3
          - time: 2h
          - no_improvement: {of: m, for: 5, mode: max, min_delta: 0.1}
          - endless: true
        """,
    )

    epochs, when, time, patience, endless = job.stop
    assert epochs == StopAfterEpochs(7, "stop[0]")
    assert isinstance(when, StopWhen)
    assert when.probe.parts == (Compare(NodeBlob("local", "w"), (">",), (Const(3),)),)
    assert time == StopAfterTime(7200.0, "stop[2]")
    assert patience == StopWithoutImprovement("m", 5, "max", 0.1, "stop[3]")
    assert endless == Endless("stop[4]")


def test_the_fault_of_a_job_without_a_stop_says_how_to_add_one(tmp_path):
    fault = fault_of(tmp_path, "stop: []")

    assert fault.code == "E137"
    assert "endless: true" in fault.mend


def test_patience_watches_a_metric(tmp_path):
    fault = fault_of(tmp_path, "metrics: {loss: w}\nstop: [{no_improvement: {of: los, for: 3}}]")

    assert (fault.code, fault.mend) == ("E138", "did you mean 'loss'?")


def test_a_node_that_is_left_out_keeps_its_constants_and_no_state(tmp_path):
    compiled = compile_text(
        tmp_path,
        """\
        nodes: {a: {}, b: {}}
        init:
          - {task: d, node: '*', rebuild: true, steps: [X = 1.0]}
          - {task: i, node: '*', steps: [w = 1.0]}
        epoch: [{task: t, node: a, steps: [w = X]}, {task: u, node: b, steps: [y = X]}]
        checkpoint: {nodes: [a]}
        """,
    )

    assert compiled.job.state == (("a", ("w",)),)
    assert compiled.job.constants == (("a", ("X",)), ("b", ("X",)))


@pytest.mark.parametrize(
    ("written", "deadline"),
    [
        ("deadline: auto", Deadline("auto", 60.0)),
        ("deadline: auto\nmargin: 3m", Deadline("auto", 180.0)),
        ("deadline: 2026-11-21T18:30", Deadline("2026-11-21T18:30")),
        ("deadline: '2026-11-21 18:30:00+01:00'", Deadline("2026-11-21 18:30:00+01:00")),
        ("", None),
    ],
)
def test_a_deadline_is_what_the_batch_system_says_or_a_time(tmp_path, written, deadline):
    assert job_of(tmp_path, written).deadline == deadline


@pytest.mark.parametrize("written", ["18h", "2026-11-21", "tomorrow", "2026-13-01T00:00"])
def test_what_is_no_time_is_no_deadline(tmp_path, written):
    fault = fault_of(tmp_path, f"deadline: {written}")

    assert fault.code == "E126"
    assert fault.where.line > 0


def test_a_margin_of_nothing_is_reported(tmp_path):
    assert fault_of(tmp_path, "margin: 3m").code == "E124"
