from __future__ import annotations

import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.runner.identity.recorded_job import known_inputs, recordable_params
from jobrun.runner.rundir.run_index import dump_inputs
from jobrun.runner.rundir.run_inputs import RunInputs, read_inputs
from jobrun.runner.rundir.run_json import RunRecord, read_record, write_record
from jobrun.spec.load import load_spec
from tests.support.tables import each_case

SPEC = """\
jobrun: 1
name: walk
seed: 5
include: [base.yaml]
params:
  k: 1
  rate: {type: float, default: 0.5}
  label: a
  place: "${env:PLACE,here}"
  below: "${place}/data"
  key: {secret: true, default: "${env:KEY,}"}
  total: {default: 10, drift: safe}
init: [{task: i, steps: [x = 0]}]
epoch: [{task: e, steps: [x += k]}]
stop: [{epochs: 3}]
"""
BASE = "params: {deep: {type: int, default: 3, max: 9}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "walk.yaml").write_text(SPEC)
    monkeypatch.setenv("KEY", "secret")
    monkeypatch.delenv("PLACE", raising=False)
    return tmp_path


def load(folder, *overrides, values=()):
    loaded = load_spec(
        str(folder / "walk.yaml"),
        overrides=overrides,
        values=[str(folder / name) for name in values],
    )
    return loaded, known_inputs(loaded, compile_job(loaded).job.seed)


def recorded(folder, *overrides, values=()):
    """Return the inputs of a run as they are read back from its ``run.json``."""
    loaded, _ = load(folder, *overrides, values=values)
    record = RunRecord(
        run_id="r",
        job="walk",
        created="2026-11-21T09:42:00+00:00",
        params=recordable_params(loaded),
        seed=loaded.spec.seed,
        given=loaded.external_params,
        variables=loaded.environment_digests,
    )
    write_record(folder, record)
    return read_inputs(dump_inputs(read_record(folder)))


@each_case(
    "first, second",
    [
        ((), ()),
        (("rate=3",), ("rate=3.0",)),
        (("rate=1e-1",), ("rate=0.1",)),
        ((), ("k=1", "rate=0.5", "seed=5", "deep=3")),
        (("k=2", "rate=0.1"), ("rate=0.1", "params.k=2")),
        (("rate=.inf",), ("rate=.inf",)),
        (("rate=.nan",), ("rate=.nan",)),
        ((f"k={2**62}",), (f"k={2**62}",)),
        (("total=20",), ("total=30",)),
        (("stop=[{epochs: 7}]",), ()),
    ],
)
def test_the_same_values_are_the_same_run_however_they_are_written(folder, first, second):
    known = recorded(folder, *first)

    assert load(folder, *second)[1].equal(known)


@each_case(
    "first, second",
    [
        ((), ("k=2",)),
        (("k=2",), ()),
        (("k=2",), ("k=3",)),
        ((), ("seed=6",)),
        (("seed=6",), ()),
        ((), ("rate=0.5000000000000001",)),
        ((), ("label=b",)),
        ((), ("deep=4",)),
        ((), ("place=there",)),
    ],
)
def test_different_given_value_starts_another_run(folder, first, second):
    known = recorded(folder, *first)

    assert not load(folder, *second)[1].match(known)


def test_a_file_of_values_gives_them_and_an_included_file_does_not(folder):
    (folder / "more.yaml").write_text("include: [less.yaml]\nparams: {k: 2}\n")
    (folder / "less.yaml").write_text("params: {rate: 0.25}\n")

    loaded, inputs = load(folder, values=["more.yaml"])

    assert sorted(loaded.external_params) == ["params.k", "params.rate"]
    assert inputs.equal(recorded(folder, "k=2", "rate=0.25"))
    assert not load(folder)[1].match(recorded(folder, values=["more.yaml"]))


@pytest.mark.parametrize(
    "edit", [("rate, default: 0.5", ""), ("k: 1", "k: 7"), ("seed: 5", "seed: 6")]
)
def test_an_edited_default_is_a_change_of_the_spec_of_the_same_run(folder, edit):
    known = recorded(folder)
    path = folder / "walk.yaml"
    path.write_text(path.read_text().replace("default: 0.5", "default: 0.7").replace(*edit))

    inputs = load(folder)[1]

    assert inputs.match(known)
    assert not inputs.equal(known)
    # Of the run that was given a value it is none.
    assert not inputs.match(recorded(folder, "label=b"))


def test_a_param_that_only_one_has_is_a_change_of_the_spec(folder):
    known = recorded(folder)
    path = folder / "walk.yaml"
    path.write_text(path.read_text().replace("label: a", "other: 3"))

    assert load(folder)[1].equal(known)


@pytest.mark.parametrize("name", ["PLACE", "KEY"])
def test_a_variable_that_a_param_takes_its_value_from_is_an_input(folder, monkeypatch, name):
    known = recorded(folder)
    assert load(folder)[1].equal(known)

    monkeypatch.setenv(name, "elsewhere")

    assert not load(folder)[1].match(known)
    assert "elsewhere" not in str(load(folder)[1])


def test_run_without_recorded_given_values_is_refused(
    folder,
):
    known = recorded(folder, "k=2")
    old = RunInputs(known.values)

    assert load(folder, "k=2")[1].equal(old)
    assert not load(folder, "k=3")[1].match(old)
    # Whether 2 was the default then is not known: a resume is refused, and says so.
    assert load(folder)[1].match(old)
