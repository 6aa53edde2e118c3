from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobrun.cli.jobs.prove import _sum
from jobrun.cli.run_command import invoke
from jobrun.tools.prove.proof import Proof, ProofRequest
from jobrun.tools.prove.trials import AtTime, Course, Outcome, Reference, Trial

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = 0"]}
epoch:
  - {task: step, steps: ["x = x + 1", %s]}
stop: [epochs: 3]
"""
HIDDEN = "calls = []\ndef remember():\n    calls.append(1)\n    return len(calls)\n"


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grow.yaml").write_text(SPEC % '"y = 1"')
    return tmp_path / "grow.yaml"


@pytest.mark.long
def test_a_proof_ends_with_a_table_and_a_sentence(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--kills", "4", "--jobs", "1"]) == 0

    output = capsys.readouterr().out
    assert output.startswith("killed  ")
    assert "at a random instant" in output
    assert re.search(
        r"^proven: \d of 4 copies were killed before they finished, and \d of them"
        r" continued from a saved epoch; each ended with the blobs",
        output,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("landed", "loaded", "words"),
    [
        ([True, True], [3, 0], "proven: 2 of 2 copies"),
        ([True, False], [3, 0], "1 had finished before the kill and do not count"),
        ([True, True], [0, 0], "not shown: 2 of 2 copies were killed before they finished, "
                               "and 0 of them continued from a saved epoch"),
        ([True, False, False], [3, 0, 0], "(--epochs), make epochs longer, or kill more "
            "(--kills 6)"),
    ],
)  # fmt: skip
def test_too_few_kills_show_nothing_and_are_no_fault(landed, loaded, words):
    trial = Trial(0, (AtTime(0.1),))
    outcomes = tuple(
        Outcome(trial, (hit,), epoch) for hit, epoch in zip(landed, loaded, strict=True)
    )
    reference = Reference(None, 0, Course({}, 0.1, 0.4))
    proof = Proof(True, reference, None, outcomes, ())

    request = ProofRequest((), None, Path(), (), Path())
    assert words in _sum(proof, request)
    assert proof.holds == _sum(proof, request).startswith("proven")


@pytest.mark.long
def test_the_same_as_json(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--kills", "2", "--json", "--epochs", "2"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.proof/1"
    assert document["proven"] is True
    assert document["reached"]["runner.epoch-ended"] == 2
    assert len(document["copies"]) == 2


@pytest.mark.long
def test_what_breaks_the_promise_is_named_with_blob_epoch_and_step(spec, capsys):
    (spec.parent / "hidden.py").write_text(HIDDEN)
    spec.write_text(SPEC % '{call: "hidden:remember", out: y}, "x = x + y"')

    assert invoke(["prove", "grow.yaml", "--kills", "12", "--jobs", "1"]) == 8

    output = capsys.readouterr().out
    assert "NOT PROVEN: " in output
    assert "DIFFERENT: local.x after epoch" in output
    assert "the last step of an epoch that writes it: epoch/step" in output


@pytest.mark.long
def test_a_job_that_is_not_repeatable_is_distinguished_from_a_lost_promise(spec, capsys):
    spec.write_text(SPEC % '{call: "time:time_ns", out: y}, "x = x + y"')

    assert invoke(["prove", "grow.yaml", "--kills", "4"]) == 8

    assert "two uninterrupted runs differ" in capsys.readouterr().out


@pytest.mark.long
def test_a_blob_that_holds_a_timer_is_left_out_by_name(spec, capsys):
    (spec.parent / "timer.py").write_text("import time\ndef now():\n    return time.time()\n")
    spec.write_text((SPEC % '{call: "timer:now", out: t}').replace('"x = 0"', '"x = 0", "t = 0.0"'))
    words = ["prove", "grow.yaml", "--kills", "2", "--jobs", "1"]

    assert invoke(words) == 8
    assert "two uninterrupted runs differ" in capsys.readouterr().out
    assert invoke([*words, "--without", "t"]) == 0
    assert "left out by --without t: t" in capsys.readouterr().out
    assert invoke([*words, "--without", "tt"]) == 2
    assert "did you mean 't'?" in capsys.readouterr().err


def test_a_job_without_checkpoints_has_nothing_to_prove(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--set", "checkpoint=none"]) == 2

    assert "E419" in capsys.readouterr().err


STEPS = """
import numpy as np

def begin():
    chance = np.random.default_rng(5)
    return chance.normal(size=(40, 40)), np.ones(40)

def step(a, w):
    w = a @ w
    return w / np.linalg.norm(w)
"""
ORIGINAL = """
import numpy as np
import steps

a, w = steps.begin()
for _ in range(3):
    w = steps.step(a, w)
%s
np.save("w.npy", w)
np.savez("all.npz", w=w, n=np.int64(3))
"""
PORTED = """
jobrun: 1
name: ported
init:
  - {task: begin, steps: [{call: "steps:begin", out: [a, w]}]}
epoch:
  - {task: step, steps: [{call: "steps:step", with: {a: a, w: w}, out: w}]}
exit:
  - task: end
    steps:
      - n = 3
      - save: {w: w.npy}
      - save: {w: "${run.dir}/artifacts/all.npz::w", n: "${run.dir}/artifacts/all.npz::n"}
stop: [epochs: 3]
"""
AGAINST = ("prove", "ported.yaml", "--kills", "2", "--against", "python original.py")


@pytest.fixture
def ported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "original.py").write_text(ORIGINAL % "")
    (tmp_path / "ported.yaml").write_text(PORTED)
    return tmp_path


@pytest.mark.long
def test_a_job_that_writes_what_the_original_program_writes_is_proven(ported, capsys):
    assert invoke([*AGAINST, "--artifact", "w.npy", "--artifact", "all.npz"]) == 0

    output = capsys.readouterr().out
    assert "w.npy: the same as that of 'python original.py'" in output
    assert "all.npz: the same as that of 'python original.py'" in output
    assert output.rstrip().endswith("; it writes what the original program writes")


@pytest.mark.long
def test_a_last_bit_that_differs_from_the_original_program_is_named(ported, capsys):
    (ported / "original.py").write_text(ORIGINAL % "w[7] = np.nextafter(w[7], 9)")

    assert invoke([*AGAINST, "--artifact", "all.npz", "--json"]) == 8

    document = json.loads(capsys.readouterr().out)
    assert document["proven"] is False
    assert re.fullmatch(
        r"w\[7\]: it is -?0\.\d+, not -?0\.\d+", document["unlike_original"]["all.npz"]
    )


@pytest.mark.long
def test_what_was_there_before_is_not_what_the_job_has_written(ported, capsys):
    (ported / "old.npy").write_bytes(b"what the original program wrote last week")
    (ported / "original.py").write_text("open('old.npy', 'w').write('1')")

    assert invoke([*AGAINST, "--artifact", "old.npy"]) == 8

    assert "error[E482] the job has not written 'old.npy'" in capsys.readouterr().err
    assert (ported / "old.npy").read_text().startswith("what the original")


@pytest.mark.long
def test_a_failing_original_program_is_reported_with_its_output(ported, capsys):
    (ported / "original.py").write_text("raise SystemExit('no data')")

    assert invoke([*AGAINST, "--artifact", "w.npy"]) == 8

    errors = capsys.readouterr().err
    assert "error[E481] 'python original.py' fails with exit code 1: no data" in errors


@pytest.mark.parametrize(
    "words", [("--against", "true"), ("--artifact", "a"), ("--against", "true", "--artifact", "/a")]
)
def test_an_artifact_is_a_file_below_that_both_write(ported, capsys, words):
    assert invoke(["prove", "ported.yaml", *words]) == 2

    assert "error[E404]" in capsys.readouterr().err
