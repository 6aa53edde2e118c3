"""Make a small spec for sweeps, and imaginary points where nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobrun.tools.sweep.point_outcomes import Outcome
from jobrun.tools.sweep.sweep_design import PlannedPoint

SPEC = """\
jobrun: 1
name: grow
params:
  k: 1
  rate: {type: float, default: 1.0}
  kind: {type: text, default: a, choices: [a, b]}
  most: 99
init:
  - {task: a, steps: ["x = 0.0"]}
epoch:
  - task: s
    steps:
      - x += k * rate
      - {assert: "x < most"}
metrics: {x: x}
stop: [epochs: 3]
"""


def grow_spec(folder: Path, extra: str = "") -> Path:
    """Write the spec; each epoch adds ``k * rate``, and it fails from ``most`` on."""
    path = folder / "grow.yaml"
    path.write_text(SPEC + extra)
    return path


def planned(**values: Any) -> PlannedPoint:
    """Make a point without a spec."""
    name = "-".join(f"{axis}{value}" for axis, value in values.items())
    return PlannedPoint(f"grow.{name}", values, (), "sha256:0")


def outcome(state: str = "finished", x: float | None = None, **values: Any) -> Outcome:
    """Make an imaginary outcome of a point."""
    metrics = {} if x is None else {"x": x}
    point = planned(**values)
    run = None if state == "not started" else Path("runs", point.job, "2026-one")
    return Outcome(point, state, run, 3 if run else -1, 0, "", metrics)
