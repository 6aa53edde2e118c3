"""Make reports of runs, with hostile texts wherever a user can put one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.run_directories import runs
from jobrun.tools.report.report_data import RunReport, read_report

HOSTILE = "</script><img src=x onerror=alert(1)>"
SPEC = f"""
jobrun: 1
name: pages
description: "{HOSTILE}"
params: {{lr: 0.5, note: "{HOSTILE}"}}
init:
  - {{task: begin, steps: ["x = 8.0", "w = reshape(arange(160.0), (10, 16))", "t = '{HOSTILE}'"]}}
epoch:
  - task: halve
    steps:
      - x = x * lr
      - {{log: "{HOSTILE}"}}
      - {{metric: {{odd: "x if epoch != 2 else nan"}}}}
exit:
  - {{task: done, steps: [{{log: "{HOSTILE}"}}]}}
metrics: {{x: x}}
stop: [epochs: 4]
expect: [x < 1, x < 0.25]
"""


def make_report(folder: Path, *words: str) -> RunReport:
    """Make the report of a new run of the spec, ended as ``words`` of the command line say."""
    spec = folder / "pages.yaml"
    spec.write_text(SPEC)
    run_dir = folder / "runs"
    invoke(["run", str(spec), "--run-dir", str(run_dir), "--quiet", "--resume", "never", *words])
    return read_report(runs(run_dir, "pages")[-1], run_dir)


@cache
def a_report(*words: str) -> RunReport:
    """Return a report made once for all tests that change nothing of it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_report(folder, *words)
