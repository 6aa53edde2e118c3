from __future__ import annotations

import pytest

from jobrun.cli.run_command import invoke
from tests.support.sample_runs import make_run
from tests.support.sweeps import grow_spec


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


@pytest.fixture
def offered(monkeypatch, capsys):
    """What a shell would offer behind some words, the last of them incomplete."""

    def _offered(*words: str) -> list[str]:
        monkeypatch.setenv("_JOBRUN_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["jobrun", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        capsys.readouterr()
        assert invoke([]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        lines = captured.out.splitlines()
        return [line.partition(",")[2] for line in lines if line]

    return _offered


def test_commands_and_options_are_offered(offered):
    assert offered("insp") == ["inspect-checkpoint"]
    assert "--resume" in offered("run", "--re")


def test_runs_are_offered_by_job_word_and_whole_name(run, offered):
    words = run.path.name.split("-", 2)[-1]

    assert offered("status", "") == ["latest", "shrink", words]
    assert offered("status", "shrink/") == [run.name]
    assert offered("status", "shrink", "--run-dir", "") != ["latest"]


def test_epochs_are_offered_behind_the_at_newest_first(run, offered):
    assert offered("diff", "shrink@") == [f"shrink@{epoch}" for epoch in (4, 3, 2, 1, 0)]


def test_tasks_metrics_and_blobs_of_a_run_are_offered(run, offered):
    assert offered("logs", "latest", "") == ["halve"]
    assert offered("metrics", "latest", "") == ["x"]
    assert offered("inspect-checkpoint", "latest", "--blob", "") == ["x"]
    assert offered("runs", "sh") == ["shrink"]


def test_specs_and_the_folders_on_the_way_to_them_are_offered(tmp_path, monkeypatch, offered):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("")
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.yml").write_text("")

    assert offered("run", "") == ["a.yaml", "deep/"]
    assert offered("run", "deep/") == ["deep/b.yml"]


def test_pages_and_keys_are_offered_to_explain(offered):
    assert {"checkpoint.keep", "checkpoint.every"} <= set(offered("explain", "checkpoint."))
    assert "tutorial" in offered("explain", "tut")


def test_params_are_offered_with_their_defaults(tmp_path, monkeypatch, offered):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(
        "jobrun: 1\nname: a\nparams: {k: 3, rate: 0.1}\ninit: [{task: t, steps: ['x = k']}]\n"
        "stop: [epochs: 1]\n"
    )

    assert offered("run", "a.yaml", "--set", "par") == ["params.k=", "params.rate="]


def test_params_of_a_spec_that_is_not_valid_yet_are_offered(tmp_path, monkeypatch, offered):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.yaml").write_text("params: {k: {type: int, default: 3}, rate: }\n")
    (tmp_path / "a.yaml").write_text("include: [part.yaml]\nname: a\ninit: [{tsk: t}]\n")

    assert offered("run", "a.yaml", "--set", "par") == ["params.k=", "params.rate="]


@pytest.mark.parametrize(
    "words",
    [
        ("status", ""),
        ("diff", "none@"),
        ("logs", "none", ""),
        ("run", "no/where"),
        ("stats", ""),
        ("status", "--wach", ""),
        ("runs", "lst", ""),
    ],
)
def test_what_is_not_there_is_not_offered_and_is_no_error(tmp_path, monkeypatch, offered, words):
    monkeypatch.chdir(tmp_path)

    assert offered(*words) == []


def test_axes_and_metrics_of_a_sweep_are_offered(tmp_path, monkeypatch, offered):
    monkeypatch.chdir(tmp_path)
    grow_spec(tmp_path)

    assert offered("sweep", "grow.yaml", "--grid", "k") == ["k=", "kind="]
    assert "seed=" in offered("sweep", "grow.yaml", "--grid", "")
    assert offered("sweep", "grow.yaml", "--best", "") == ["x", "max:x"]
