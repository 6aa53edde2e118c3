import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.spec.models.json_schema import schema, schema_text
from jobrun.spec.models.step_forms import FORMS
from tests.support.specs import HEADER, KMEANS, STEPS, load, write

FILE = Path(__file__).parent.parent.parent.parent / "schemas" / "job.schema.json"


def _checked(*paths):
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(FILE), *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_schema_in_the_repository_is_current():
    assert FILE.read_text(encoding="utf-8") == schema_text(), "run 'jobrun schema > the file'"


def test_the_text_is_the_same_every_time():
    assert schema_text() == schema_text()


@pytest.mark.long
def test_the_schema_follows_its_own_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--check-metaschema", str(FILE)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


GOOD = {
    "kmeans": KMEANS,
    "steps": HEADER + "epoch:\n  - task: t\n    steps: " + json.dumps(list(STEPS.values())) + "\n",
    "references": HEADER
    + 'params: {n: 3}\nseed: ${n}\nstop: [{epochs: "${n}"}, {endless: true}]\n',
    "private": HEADER + "include: []\nx-anchors: {a: [1, null, {b: x}]}\n",
    "readers": HEADER + "readers: {r: {npz: a, batch: 4}}\nqueues: {q: {capacity: 3}}\n",
    "ragged": HEADER + "readers: {r: {npz: a, fields: {x: {values: v, lengths: n}, n: n}}}\n",
    "groups": HEADER
    + "init: {workspace: private, tasks: [], setup: {init: [a = 1]}, report: []}\n",
    "names": HEADER + "metrics: {λ: x}\n",
    "over": HEADER + "expect: [a < 1, {of: a, nodes: n_*, reduce: max}, true]\n",
}


@pytest.mark.long
def test_good_specs_pass(tmp_path):
    paths = [write(tmp_path, text, f"{name}.yaml") for name, text in GOOD.items()]

    done = _checked(*paths)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["kmeans", "readers", "ragged", "private", "names", "over"])
def test_what_the_schema_passes_loads(tmp_path, name):
    load(tmp_path, GOOD[name].split("\n", 2)[2])


BAD = [
    "stop: [{wen: a}]", "stop: [{epochs: 0}]", "stop: [{epochs: 1, time: 1s}]", "stop: [{}]",
    "stop: [{epochs: '3'}]", "seed: x", "stp: 1", "nodes: {a b: {}}", "nodes: {a: {count: 0}}",
    "epoch: [{steps: []}]", "epoch: [{task: t, steps: [{lop: 3}]}]",
    "epoch: [{task: t, steps: [3]}]",
    "epoch: [{task: t, steps: [{if: a}]}]", "epoch: [{task: t, on_error: ignore}]", "margin: 90",
    "readers: {r: {npz: a, npy: b}}", "readers: {r: {}}",
    "readers: {r: {npz: a, fields: {x: {values: v}}}}", "checkpoint: never", "init: 3",
    "checkpoint: {every: 5}", "metrics: {1a: x}", "margin: null", "epoch: [{task: t, hogwild: 1}]",
    "params: {k: {typ: int}}", "params: {k: [1]}", "epoch: [{task: t, steps: [{save: {}}]}]",
]  # fmt: skip


@pytest.fixture(scope="module")
def checker_output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    paths = [write(folder, f"{HEADER}{body}\n", f"{n}.yaml") for n, body in enumerate(BAD)]
    return _checked(*paths).stdout


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(BAD)), ids=BAD)
def test_bad_specs_do_not(checker_output, number):
    assert f"/{number}.yaml::" in checker_output


@pytest.mark.long
def test_a_spec_has_a_version_and_a_name(tmp_path):
    assert "'name' is a required property" in _checked(write(tmp_path, "jobrun: 1\n")).stdout


def test_every_form_of_step_is_offered():
    step = schema()["$defs"]["Step"]["oneOf"]

    assert len(step) == len(FORMS) + 1


def test_every_object_of_the_language_says_what_it_is():
    silent = [
        name
        for name, body in schema()["$defs"].items()
        if "properties" in body and not (body.get("description") and body.get("title"))
    ]
    assert silent == []


def test_nothing_may_be_null():
    types = re.findall(r'"type": ("\w+"|\[[^]]*\])', schema_text())

    assert len(types) > 100
    assert [each for each in types if "null" in each] == []
