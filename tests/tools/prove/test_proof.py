from __future__ import annotations

from pathlib import Path

import pytest

import jobrun
from jobrun.tools.prove.proof import ProofRequest, prove

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = zeros(3)", "c = counter(0)"]}
epoch:
  - task: step
    steps:
      - loop: 3
        steps: ["x += rng.random(3)", "count_up(c)"]
      - %s
stop: [epochs: 3]
checkpoint: {every: 1ep, keep: {last: 2}}
"""


def demand(folder: Path, step: str = '"y = sum(x)"', **more: object) -> ProofRequest:
    spec = folder / "grow.yaml"
    spec.write_text(SPEC % step)
    words = ("run", str(spec), "--resume", "auto", "--quiet")
    job = jobrun.prepare(spec).job
    places = folder / "runs", (folder,), folder
    return ProofRequest(words, job, *places, **{"kills": 9, "seed": 1, **more})  # type: ignore[arg-type]


@pytest.mark.long
def test_a_job_that_keeps_the_rules_is_proven_and_leaves_nothing_behind(tmp_path):
    outcomes = []

    proof = prove(demand(tmp_path, jobs=2), outcomes.append)

    assert proof.holds
    assert proof.exact
    assert proof.landed >= 5
    assert len(outcomes) == len(proof.outcomes) == 9
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_a_job_that_is_not_repeatable_is_reported_before_any_kill(tmp_path):
    step = '{call: "time:time_ns", out: t}, "x[0] = t"'

    proof = prove(demand(tmp_path, f"parallel: [[{step}]]"), lambda outcome: None)

    assert not proof.holds
    assert proof.unsteady is not None
    assert (proof.unsteady.blob, proof.unsteady.element) == ("x", (0,))
    assert proof.outcomes == ()


@pytest.mark.long
def test_of_a_job_that_is_not_exact_bits_are_not_compared(tmp_path):
    step = '{call: "time:time_ns", out: t, deterministic: false}, "x[0] = t"'

    proof = prove(demand(tmp_path, f"parallel: [[{step}]]", kills=2), lambda outcome: None)

    assert not proof.exact
    assert proof.holds
