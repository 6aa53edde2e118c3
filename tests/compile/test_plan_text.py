"""The plan as text."""

from __future__ import annotations

import re

import pytest

from jobrun.compile.plan_document import plan_json
from jobrun.compile.plan_text import plan_text
from jobrun.ops.abstract_values import Known
from tests.support.compiling import compile_text, job_of
from tests.support.golden import GOLDEN, check_golden
from tests.support.plan_specs import APART, SPEC


def test_a_plan_reads_like_this(tmp_path):
    job = job_of(tmp_path, SPEC)
    sizes = {
        (node, name): Known("float64", (3,))
        for node, names in (*job.state, *job.constants)
        for name in names
    }

    check_golden(GOLDEN / "compile" / "plan.txt", plan_text(job, sizes))


def test_without_sizes_only_names_are_reported(tmp_path):
    text = plan_text(job_of(tmp_path, ""))

    assert "state       local: w\n" in text
    assert not re.search(r"\d B\b", text)
    assert "exact       a killed" in text


@pytest.mark.parametrize(
    ("checkpoint", "line"),
    [
        ("none", "none: a run that is killed starts over"),
        ("{every: 5ep}", "after init and every 5 epochs, of local"),
        ("{every: 10m}", "after init, and every 600 s at the end of an epoch"),
        ("{keep: {last: 3, every: 10ep}}", "kept: the last 3, every 10th, and the one after init"),
        ("{on_error: warn}", "a failed save is reported"),
    ],
)
def test_a_policy_is_said_in_words(tmp_path, checkpoint, line):
    assert line in plan_text(job_of(tmp_path, f"checkpoint: {checkpoint}"))


def test_reasons_for_inexactness_are_listed_with_paths(tmp_path):
    text = plan_text(job_of(tmp_path, "epoch: [{task: t, hogwild: true, steps: [w = 1.0]}]"))

    assert "not exact" in text
    assert "epoch/t: hogwild" in text


def test_limits_hosts_and_remote_nets_are_reported(tmp_path):
    text = plan_text(compile_text(tmp_path, APART).job)

    assert "nodes       a\n            a: host there, gpu 1\n" in text
    assert "  t (on a; at most 3 s; 2 retries after 1 s)\n" in text
    assert "  u (on a; a failure is only reported)\n" in text
    assert "  remote net f (on a; kept for the session)\n    y = w\n" in text


OBJECTS = """\
init:
  - {task: data, rebuild: true, steps: [X = zeros(3)]}
  - {task: make, rebuild: true, steps: [{call: "lib:make", out: [model, table]}]}
epoch: [{task: train, steps: [{call: "lib:train", with: {table: table}, inout: [model]}]}]
"""


def test_objects_that_callables_change_are_no_constants(tmp_path):
    job = job_of(tmp_path, OBJECTS)

    text = plan_text(job)

    assert "objects     local: model\n            made again at every start" in text
    assert "constants   local: X, table\n" in text
    assert plan_json(job)["objects"] == [{"node": "local", "blobs": ["model"]}]
