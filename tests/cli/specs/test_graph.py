"""``jobrun graph``."""

from __future__ import annotations

import pytest

from jobrun.cli.run_command import invoke
from tests.support.command import SPECS


@pytest.mark.parametrize(
    ("output_format", "start"),
    [
        ("ascii", "digits-kmeans\n"),
        ("mermaid", "flowchart TD\n"),
        ("dot", "digraph "),
        ("svg", "<svg "),
    ],
)
def test_a_job_is_drawn_with_all_its_tasks(output_format, start, capsys):
    assert invoke(["graph", str(SPECS / "digits-kmeans.yaml"), "--format", output_format]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith(start)
    assert [task for task in ("data", "seeds", "lloyd", "result") if task not in printed.out] == []


def test_a_wrong_spec_is_not_drawn(tmp_path, capsys):
    (tmp_path / "wrong.yaml").write_text("jobrun: 1\nname: x\nepochs: []\n")
    assert invoke(["graph", str(tmp_path / "wrong.yaml")]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "did you mean 'epoch'?" in printed.err


def test_types_of_the_blobs_that_tasks_make_are_shown_when_asked_for(capsys, tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "jobrun: 1\nname: t\ninit: [{task: a, steps: ['w = zeros((4, 2))']}]\n"
        "epoch: [{task: b, steps: ['w = w + 1']}]\nstop: [{epochs: 1}]\n"
    )
    for output_format in ("ascii", "mermaid", "dot"):
        assert invoke(["graph", str(path), "--types", "--format", output_format]) == 0
        assert "w float64 4x2 (64 B)" in capsys.readouterr().out
    assert invoke(["graph", str(path)]) == 0
    assert "float64" not in capsys.readouterr().out
