"""Lines of a run's own record that could not be written are told, and end nothing."""

from __future__ import annotations

import json

from tests.support.command import jobrun
from tests.support.resumable_job import WalkJob


def test_lines_that_are_lost_are_reported_once_on_stderr_and_shown_by_status(tmp_path):
    walk_job = WalkJob(tmp_path)
    walk_job.start(max_epochs=1)
    run = walk_job.run.path
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()

    resumed = jobrun("resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr.count("lines of metrics.jsonl are lost from now on") == 1

    shown = jobrun("status", str(run))
    assert shown.returncode == 0
    assert "lines of metrics.jsonl (" in shown.stdout
    lost = json.loads(jobrun("status", str(run), "--json").stdout)["lost"]
    assert lost["metrics.jsonl"]["lines"] >= 3
    refused = jobrun("metrics", str(run))
    assert (refused.returncode, "E470" in refused.stderr) == (4, True), refused.stderr
    assert str(run / "metrics.jsonl") in refused.stderr
