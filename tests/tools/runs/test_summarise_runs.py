from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir import run_index
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import find_run
from jobrun.runner.rundir.run_index import indexed_runs
from jobrun.runner.rundir.run_json import KILLED
from jobrun.tools.runs import summarise_runs as summaries
from jobrun.tools.runs.summarise_runs import INDEX_NAME, NewestFirst, read_summaries
from jobrun.tools.runs.tag_and_remove_runs import change_tags
from tests.support.sample_runs import make_run

SPEC = """
jobrun: 1
name: walk
seed: 5
params: {rate: 0.5, goal: 8, cap: .inf, label: "a b", home: "${env:WALK_HOME}", sub: "${home}/x",
         key: {type: text, default: "${env:WALK_HOME}", secret: true}}
init: [{task: start, steps: ["x = 0.0"]}]
epoch: [{task: step, steps: ["x = x + rate"]}]
metrics: {x: x}
checkpoint: {every: 1ep}
stop: [{epochs: 2}]
"""


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summaries")
    (folder / "walk.yaml").write_text(SPEC)
    os.environ["WALK_HOME"] = "/nowhere/known"
    words = ["run", str(folder / "walk.yaml"), "-q", "--run-dir", str(folder / "runs")]
    assert invoke(words) == 0
    assert invoke([*words, "--set", "params.rate=2"]) == 0
    return folder / "runs"


@pytest.fixture
def two(run_directory, tmp_path, monkeypatch):
    """A directory of two old runs of a job."""
    shutil.copytree(run_directory, tmp_path / "runs", symlinks=True)
    # What is younger is read each time.
    monkeypatch.setattr(run_index, "COARSE_NS", 0)
    return tmp_path / "runs"


def test_a_run_is_summarised_with_its_params_and_last_metrics(two):
    first, second = read_summaries(two).runs

    assert (first.status, first.epoch, first.seed) == ("finished", 2, 5)
    assert (first.metrics, second.metrics) == ({"x": 1.0}, {"x": 4.0})
    assert (first.params["rate"], second.params["rate"]) == (0.5, 2.0)
    assert first.params["cap"] == float("inf")
    assert first.name.endswith(first.words)


def test_values_of_the_environment_and_secrets_are_not_recorded(two):
    first, _ = read_summaries(two).runs

    params = {name: first.params[name] for name in ("home", "sub", "key")}
    assert params == {"home": "${env:WALK_HOME}", "sub": "${home}/x", "key": "(secret)"}
    for path in (two / first.path / "run.json", two / INDEX_NAME):
        assert "/nowhere/known" not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0


def test_the_second_time_nothing_is_read(two, monkeypatch):
    first = read_summaries(two)
    monkeypatch.setattr(summaries, "read_record", lambda run: pytest.fail("read again"))

    assert read_summaries(two) == first


def test_what_has_changed_is_read_again(two):
    path = two / read_summaries(two).runs[0].path
    change_tags(path, ("best",), ())
    lines = (path / "metrics.jsonl").read_text().splitlines()
    last = [line for line in lines if '"Measured"' in line][-1]
    with (path / "metrics.jsonl").open("a") as file:
        file.write(last.replace('"value": 1.0', '"value": 7.0') + "\n")

    summary = read_summaries(two).runs[0]
    assert (summary.tags, summary.metrics) == (("best",), {"x": 7.0})
    shutil.rmtree(path)
    assert len(read_summaries(two).runs) == 1


def test_a_run_that_changed_a_moment_ago_is_read_again(run_directory, tmp_path):
    shutil.copytree(run_directory, tmp_path / "runs", symlinks=True)
    path = next((tmp_path / "runs" / "walk").glob("2*"))
    now_ns = time.time_ns() + 60_000_000_000
    os.utime(path, ns=(now_ns, now_ns))
    read_summaries(tmp_path / "runs")
    # Within one tick of the file system's clock.
    (path / "tags.json").write_text('["best"]')
    os.utime(path, ns=(now_ns, now_ns))

    tags = {summary.name: summary.tags for summary in read_summaries(tmp_path / "runs").runs}
    assert tags[path.name] == ("best",)


@pytest.mark.parametrize("damage", ["", "[", "[" * 100_000, '{"format": 3}', "short", "types"])
def test_a_damaged_index_costs_nothing_but_time(two, damage):
    first = read_summaries(two)
    index = two / INDEX_NAME
    if damage in ("short", "types"):
        content = json.loads(index.read_text())
        for entry in content["runs"].values():
            entry[14] = {"rate": [1]} if damage == "types" else entry[14]
            del entry[3 if damage == "short" else 18 :]
        damage = json.dumps(content)
    index.write_text(damage)

    assert read_summaries(two) == first


def test_broken_lines_of_metrics_are_counted_and_a_torn_last_one_is_not(two):
    path = two / read_summaries(two).runs[0].path / "metrics.jsonl"
    good = path.read_text()
    path.write_text("rubbish\n" + good + '{"event": "Mea')

    listing = read_summaries(two)
    assert listing.faults == (
        f"{listing.runs[0].path}: 1 line of metrics.jsonl cannot be read and is skipped",
    )
    assert listing.runs[0].metrics == {"x": 1.0}


def test_a_metrics_file_that_is_none_leaves_the_run_in_the_list(two):
    path = two / read_summaries(two).runs[0].path / "metrics.jsonl"
    path.unlink()
    path.mkdir()

    listing = read_summaries(two)
    assert len(listing.runs) == 2
    assert "cannot read metrics.jsonl" in listing.faults[0]


def test_a_damaged_record_is_reported_and_other_runs_are_listed(two):
    bad = read_summaries(two).runs[0].path
    (two / bad / "run.json").write_text("{")

    listing = read_summaries(two)
    assert len(listing.runs) == 1
    assert listing.faults[0].startswith(f"{bad}: ")
    assert "damaged" in listing.faults[0]


def test_a_run_without_the_right_to_read_is_reported(two, monkeypatch):
    bad = read_summaries(two).runs[0].path
    refuse, stat = (two / bad / "run.json"), os.stat

    def denied(path, **more):
        if str(path) == str(refuse):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", denied)
    listing = read_summaries(two)
    assert (len(listing.runs), listing.faults) == (1, (f"{bad}: Permission denied",))


def test_a_run_that_disappears_meanwhile_is_reported(two, monkeypatch):
    read = summaries.read_record

    def removing(run):
        shutil.rmtree(run)
        return read(run)

    monkeypatch.setattr(summaries, "read_record", removing)
    listing = read_summaries(two)
    assert listing.runs == ()
    assert [words.split(": ")[1] for words in listing.faults] == [
        "it disappeared while it was read"
    ] * 2


def test_a_run_whose_process_was_killed_has_the_epoch_of_its_journal(two):
    record = two / read_summaries(two).runs[0].path / "run.json"
    text = record.read_text().replace('"finished"', '"running"').replace('"epoch": 2', '"epoch": 0')
    record.write_text(text)

    killed = read_summaries(two).runs[0]
    assert (killed.status, killed.epoch) == (KILLED, 2)
    with RunLock.acquire(record.parent):
        live = read_summaries(two).runs[0]
        assert (live.status, live.epoch, live.total_epochs) == ("running", 2, 2)


def test_of_the_newest_runs_alone_the_files_are_looked_at(two, monkeypatch):
    older, newer = read_summaries(two).runs
    stamp, looked_at = run_index._stamp_run, []
    monkeypatch.setattr(
        run_index,
        "_stamp_run",
        lambda run, *arguments: looked_at.append(run) or stamp(run, *arguments),
    )

    assert read_summaries(two, newest=1).runs == (newer,)
    assert looked_at == [str(two / newer.path)]
    assert read_summaries(two, older.job, newest=1).runs == (newer,)
    assert read_summaries(two, newest=9).runs == (older, newer)


def test_a_run_that_was_moved_to_another_name_is_among_the_newest_of_its_job(two):
    job = read_summaries(two).runs[0].job
    (two / job).rename(two / "kept")

    summaries_ = read_summaries(two, job).runs
    assert [summary.path.partition("/")[0] for summary in summaries_] == ["kept", "kept"]
    assert read_summaries(two, job, newest=2).runs == summaries_


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_an_edit_in_place_of_one_of_the_newest_runs_is_seen(two, name):
    _, newer = read_summaries(two, newest=2).runs
    path = two / newer.path / name
    with path.open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("#" * len(text))

    assert newer not in read_summaries(two, newest=1).runs


def test_only_the_runs_of_one_job_are_built(two):
    assert len(read_summaries(two, "walk").runs) == 2
    assert read_summaries(two, "other").runs == ()


def test_a_name_that_begins_a_longer_one_is_found(two):
    first, second = indexed_runs(two)
    (two / first.path).rename(two / "walk" / "20260101-0000-calm-ox")
    (two / second.path).rename(two / "walk" / "20260101-0001-calm-oxen")

    assert find_run("calm-ox", two).path.name == "20260101-0000-calm-ox"


def list_runs(root):
    return list(NewestFirst(root).runs(lambda _: True))


def test_a_run_recorded_as_running_without_lock_was_killed(tmp_path):
    make_run(tmp_path, "good")
    root = tmp_path / "runs"
    path = root / list_runs(root)[0].path
    record = path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert list_runs(root)[0].status == KILLED
    with RunLock.acquire(path):
        assert list_runs(root)[0].status == "running"


def test_a_directory_that_is_not_there_has_no_runs(tmp_path):
    assert list_runs(tmp_path / "nowhere") == []
