from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from jobrun.tools.smoke_tests import SmokeResult, junit, markdown, run_smoke_tests
from tests.support.sample_runs import SPEC

FAULT = {
    "code": "E364", "severity": "error", "message": "'x < 1 | y' does not hold", "mend": "mend it",
    "path": "expect[0]", "file": "a.yaml", "line": 3, "column": 5, "length": 4,
}  # fmt: skip
GOOD = SmokeResult("good.yaml", 0, 1.25, 3, "3 epochs have run", (), {"x": 0.5}, ("t: fine",))
UNMET = SmokeResult("unmet.yaml", 9, 0.5, 3, "'x < 1 | y' does not hold", (FAULT,))
BROKEN = SmokeResult("broken.yaml", -11, 0.25, said=("a \x1b[31m b",))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("specs")
    specs = {"good": SPEC.format(name="good", limit=0.0), "bad": SPEC.format(name="bad", limit=3.0)}
    for name, text in specs.items():
        (folder / f"{name}.yaml").write_text(text)
    reported: list[SmokeResult] = []
    names = [str(folder / f"{name}.yaml") for name in ("good", "bad")]
    return run_smoke_tests(names, ["--epochs", "2"], folder / "runs", 2, reported.append), reported


@pytest.mark.long
def test_each_spec_is_run_and_reported_and_results_keep_their_order(results):
    (good, bad), reported = results

    assert (good.exit_code, good.epoch, good.metrics) == (0, 2, {"x": 2.0})
    assert (bad.exit_code, bad.word) == (1, "failed")
    assert {result.spec for result in reported} == {good.spec, bad.spec}


@pytest.mark.long
def test_what_went_wrong_comes_with_its_place(results):
    (_, bad), _ = results

    assert [fault["code"] for fault in bad.faults] == ["E205"]
    assert "x > 3.0" in bad.reason
    assert any(text.startswith("halve: x is 2") for text in bad.said)
    assert "epoch 1 is saved; to continue" in bad.said[-1]


@pytest.mark.parametrize(
    ("code", "good", "word"),
    [(0, True, "passed"), (75, True, "passed, stopped"), (9, False, "unexpected"),
     (3, False, "failed"), (-9, False, "failed")],
)  # fmt: skip
def test_what_counts_as_good(code, good, word):
    result = SmokeResult("a.yaml", code, 1.0)

    assert (result.good, result.word) == (good, word)


def test_junit_has_a_case_per_spec_and_distinguishes_failures_from_errors():
    suite = ET.fromstring(junit([GOOD, UNMET, BROKEN]))[0]

    assert suite.attrib["tests"] == "3"
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1")
    good, unmet, broken = suite
    assert good.attrib["time"] == "1.250"
    assert good.findtext("system-out") == "t: fine"
    assert "a.yaml:3:5" in (unmet.findtext("failure") or "")
    assert broken.findtext("system-out") == "a \N{REPLACEMENT CHARACTER}[31m b"


def test_the_table_in_markdown_has_a_row_per_spec_and_the_faults_below():
    lines = markdown([GOOD, UNMET]).splitlines()

    assert lines[2] == "| `good.yaml` | ✅ passed | 3 | 1.2 | 3 epochs have run |"
    assert lines[3] == "| `unmet.yaml` | ❌ unexpected | 3 | 0.5 | 'x < 1 \\| y' does not hold |"
    assert any(line.startswith("error[E364] a.yaml:3:5") for line in lines)
