"""``--profile``, as a person sees it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from jobrun.cli.jobs import run as run_command
from jobrun.cli.progress.profile_output import profile_run, render_tables
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.core.events import ignore
from jobrun.runner.options import RunOptions
from jobrun.tools.profile import InstanceRow, NodeRow, OperatorRow, StepRow, Table
from tests.support.command import jobrun
from tests.support.stored_runs import only_run

TABLE = Table(
    (
        StepRow("epoch/t/steps[0]", "matmul", 5, 1200, 1.5, 1.5, estimated=True),
        StepRow("epoch/t/steps[1]", "copy", 6, 3, 0.0005, 0.0005),
        StepRow("epoch/t/steps[2]", "+", 7, 0, 0.0, 0.0),
    ),
    (OperatorRow("matmul", 1200, 1.5),),
    (
        InstanceRow("epoch", "n", "t", 2, 3, 1.5, 0.0, 0.0),
        InstanceRow("epoch", "n", "", 0, 0, 0, 1, 0),
    ),
    (NodeRow("n", 1.5),),
)
SPEC = """\
jobrun: 1
name: small
init: [{task: start, steps: [n = 0]}]
epoch: [{task: t, steps: [{loop: 9, steps: [n += 1]}, {assert: epoch < LAST}]}]
stop: [{epochs: 3}]
"""


def test_steps_have_their_time_share_and_calls():
    lines = render_tables(TABLE, (Path("a.json"), Path("b.json")))

    assert lines[2] == "   1.5 s   100%  ~1200  matmul  epoch/t/steps[0]"
    assert lines[3] == "  500 µs     0%      3  copy    epoch/t/steps[1]"
    assert not any("steps[2]" in line for line in lines)


def test_instances_nodes_and_files_follow():
    text = "\n".join(render_tables(TABLE, (Path("a.json"), Path("b.json"))))

    assert "n/t" in text
    assert "n, around epoch" in text
    assert text.splitlines()[-3:] == [
        "files: all rows; a trace to open in chrome://tracing or ui.perfetto.dev",
        "  a.json",
        "  b.json",
    ]


def test_without_the_option_nothing_is_changed():
    options = RunOptions()
    with profile_run(False, Shell({})) as attach:
        attached, listener = attach(options, ignore)
    assert attached is options
    assert listener is ignore


@pytest.mark.long
@pytest.mark.parametrize(("last", "exit_code"), [(9, 0), (2, 1)])
def test_a_run_shows_where_its_time_went_however_it_ended(tmp_path, last, exit_code):
    (tmp_path / "small.yaml").write_text(SPEC.replace("LAST", str(last)))

    done = jobrun("run", "small.yaml", "--profile", "-q", cwd=tmp_path)

    assert done.returncode == exit_code
    assert "profile: time of each step, without nested steps" in done.stderr
    assert "epoch/t/steps[0].steps[0]" in done.stderr
    assert (only_run(tmp_path / "runs") / "profile" / "trace-1.json").is_file()


@pytest.mark.long
def test_a_resume_can_be_measured_too(tmp_path):
    (tmp_path / "small.yaml").write_text(SPEC.replace("LAST", "9"))
    jobrun("run", "small.yaml", "--max-epochs", "1", cwd=tmp_path)

    done = jobrun("resume", "--profile", cwd=tmp_path)

    assert done.returncode == 0
    assert "profile: time of each step" in done.stderr


def test_the_tables_are_printed_when_the_display_has_left_the_terminal(
    tmp_path, monkeypatch, capsys
):
    class Display(contextlib.AbstractContextManager):
        def __call__(self, event):
            """Show nothing."""

        def __exit__(self, *_):
            print("the display ends", file=sys.stderr)

    monkeypatch.setattr(run_command, "create_display", lambda *_: Display())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SPEC.replace("LAST", "9"))

    assert invoke(["run", "small.yaml", "--profile"]) == 0

    errors = capsys.readouterr().err
    assert errors.index("the display ends") < errors.index("profile: time of each step")
