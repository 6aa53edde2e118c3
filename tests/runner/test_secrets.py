"""Of a secret param only a digest leaves the process."""

from __future__ import annotations

import stat

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.errors import SpecError
from jobrun.runner.rundir.run_directories import open_run
from jobrun.spec.load import load_spec
from tests.support.stored_runs import epochs, only_run

VALUE = "hunter2-and-more"
SPEC = """\
jobrun: 1
name: hush
params:
  password: {type: text, secret: true, help: of the service}
  url: "https://me:${password}@example.org"
init: [{task: start, steps: ["x = 0"]}]
epoch:
  - task: step
    steps:
      - x = x + 1
      - run: "test $(printf %s ${password} | wc -c) = 16 && test ${url} != ''"
stop: [{epochs: 4}]
"""
GIVEN = ["--set", f"params.password={VALUE}"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hush.yaml").write_text(SPEC)
    words = ["run", "hush.yaml", "--max-epochs", "2", *GIVEN]
    monkeypatch.setattr("sys.argv", ["jobrun", *words])
    assert invoke(words) == 75
    return tmp_path


def _files_with(folder, text):
    return [
        path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


def test_no_file_of_a_run_has_the_value(folder, capsys):
    assert _files_with(folder, VALUE) == []
    record = open_run(only_run(folder / "runs")).record
    assert record.provenance["command"][-1] == "params.password=(secret)"
    assert set(record.variables) == {"params.password"}
    assert invoke(["report", "hush", "--out", "report.html"]) == 0
    assert invoke(["status", "hush"]) == 0
    assert "--set params.password=(secret)" in capsys.readouterr().out.replace("'", "")


def test_a_resume_asks_for_the_value_and_compares_its_digest(folder, capsys):
    for words in (["resume"], ["resume", "--dry-run"], ["fork", "hush"]):
        assert invoke(words) == 3, words
        printed = capsys.readouterr().err
        assert "E448" in printed
        assert "--set params.password=VALUE" in printed
    assert invoke(["resume", "--set", "params.password=other-value"]) == 5
    printed = capsys.readouterr().err
    assert "params.password" in printed
    assert "other-value" not in printed
    assert VALUE not in printed
    assert invoke(["resume", "-q", *GIVEN]) == 0
    assert max(epochs(only_run(folder / "runs"))) == 4


def test_a_value_of_the_environment_needs_no_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SPEC.replace("secret: true", 'secret: true, default: "${env:HUSH_PASSWORD}"')
    (tmp_path / "hush.yaml").write_text(text)
    monkeypatch.setenv("HUSH_PASSWORD", VALUE)
    assert invoke(["run", "hush.yaml", "--max-epochs", "2", "-q"]) == 75
    assert _files_with(tmp_path, VALUE) == []
    monkeypatch.setenv("HUSH_PASSWORD", "another")
    assert invoke(["resume", "-q"]) == 5
    monkeypatch.setenv("HUSH_PASSWORD", VALUE)
    assert invoke(["resume", "-q"]) == 0


@pytest.mark.parametrize(
    "yaml_text", ["{default: VALUE}", "{type: text, secret: true, default: VALUE}"]
)
def test_text_of_secret_options_is_never_stored(tmp_path, monkeypatch, yaml_text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hush.yaml").write_text(SPEC)
    words = ["run", "hush.yaml", "--max-epochs", "1", "-q"]
    words += ["--set", f"params={{password: {yaml_text.replace('VALUE', VALUE)}}}"]
    monkeypatch.setattr("sys.argv", ["jobrun", *words])
    invoke(words)
    assert _files_with(tmp_path, VALUE) == []


def test_a_value_in_a_file_is_refused(tmp_path):
    path = tmp_path / "hush.yaml"
    path.write_text(SPEC.replace("secret: true", f"secret: true, default: {VALUE}"))
    with pytest.raises(SpecError) as caught:
        load_spec(str(path))
    assert [fault.code for fault in caught.value.faults] == ["E447"]
    assert VALUE not in str(caught.value)


@pytest.mark.parametrize("kind", ["secret: true", "type: text, secret: true"])
def test_an_empty_default_is_no_value_in_a_file(tmp_path, kind):
    path = tmp_path / "hush.yaml"
    path.write_text(SPEC.replace("type: text, secret: true", f"{kind}, default: ''"))

    assert not load_spec(str(path)).params["password"]


def test_error_about_a_secret_does_not_show_it(tmp_path):
    path = tmp_path / "hush.yaml"
    path.write_text(SPEC.replace("type: text, secret", "choices: [a, b], secret"))
    with pytest.raises(SpecError) as caught:
        load_spec(str(path), overrides=(f"params.password={VALUE}",))
    assert VALUE not in str(caught.value)
    path.write_text(SPEC.replace("type: text", "type: int"))
    with pytest.raises(SpecError) as caught:
        load_spec(str(path), overrides=(f"params.password={VALUE}",))
    assert VALUE not in str(caught.value)


def test_plan_and_validate_show_no_value(folder, capsys):
    for command in ("plan", "validate", "graph"):
        assert invoke([command, "hush.yaml", *GIVEN]) == 0
        printed = capsys.readouterr()
        assert VALUE not in printed.out + printed.err


def test_files_that_may_hold_values_are_for_their_owner_only(folder):
    run = only_run(folder / "runs")
    private = [run / "run.json", *(run / "spec").glob("*.yaml"), run / "spec" / "options.txt",
               run / "spec" / "origins.json"]  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_a_run_with_a_secret_and_copies_of_it_are_for_their_owner_only(folder):
    # A step may put the value into a blob, or print it, and so into any file.
    assert invoke(["ckpt", "copy", "hush", "copy"]) == 0
    for path in (only_run(folder / "runs"), folder / "copy"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
