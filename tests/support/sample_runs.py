"""Make runs for tests of commands about runs: one that finished, and one that failed."""

from __future__ import annotations

from pathlib import Path

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.run_directories import Run, runs

SPEC = """
jobrun: 1
name: {name}
init:
  - {{task: begin, steps: ["x = 8.0"]}}
epoch:
  - task: halve
    steps:
      - "x = x / 2"
      - {{log: "x is {{x}}"}}
      - {{assert: "x > {limit}"}}
metrics: {{x: x}}
stop: [epochs: 4]
"""


def make_run(folder: Path, name: str = "shrink", limit: float = 0.0) -> Run:
    """Run a small job of four epochs that logs and measures; it fails where x <= ``limit``."""
    spec = folder / f"{name}.yaml"
    spec.write_text(SPEC.format(name=name, limit=limit))
    code = invoke(["run", str(spec), "--run-dir", str(folder / "runs"), "--quiet"])
    assert code == int(limit > 0)
    return runs(folder / "runs", name)[-1]
