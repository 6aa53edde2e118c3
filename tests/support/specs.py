"""Write, load and refuse specs for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.core.errors import Fault, SpecError
from jobrun.spec.load import LoadedSpec, load_spec

HEADER = "jobrun: 1\nname: example\n"

KMEANS = """\
jobrun: 1
name: digits-kmeans
seed: 7
params:
  k: {type: int, default: 10, min: 2, help: number of clusters}
  tol: 1e-4
nodes: {trainer: {}}
nets:
  assign:
    - d2 = sum(C * C, axis=1) - 2 * X @ C.T
init:
  - task: data
    rebuild: true
    steps:
      - load: {X: "data/digits.npz::data"}
epoch:
  - task: lloyd
    steps:
      - net: assign
      - op: segment_sum
        in: [X, label]
        out: [sums, n]
        num_segments: k
    report:
      - {every: 5s, steps: [{log: "shift {shift:.3g}"}]}
metrics: {shift: shift}
stop:
  - when: shift < tol
  - epochs: 100
checkpoint: {every: 1ep, keep: {last: 3, every: 10ep}}
expect:
  - shift < 0.01
"""

# One step of each form.
STEPS = {
    "op": {"op": "add", "in": ["a", 1], "out": "c", "axis": 1, "where": None},
    "call": {"call": "pkg.mod:function", "with": {"x": "X"}, "out": ["a", "b"], "inout": ["c"]},
    "run": {"run": ["prog", "arg"], "env": ["HOME"], "with": {"n": 1}, "out": {"y": "f::m"},
            "state_dir": "s"},
    "net": {"net": "f", "in": {"a": "X"}, "out": {"c": "label"}},
    "loop": {"loop": "k", "as": "i", "name": "outer", "steps": ["a = 1"]},
    "while": {"while": "a < 1", "steps": []},
    "if": {"if": "a", "then": [], "elif": [{"if": "b", "then": []}], "else": ["stop"]},
    "stop_if": {"stop_if": "a", "stop": "outer"},
    "stop": {"stop": "task"},
    "guard": {"guard": "done", "steps": []},
    "parallel": {"parallel": [["a = 1"], ["b = 2", {"log": "x"}]]},
    "pull": {"pull": {"w": {"from": "a_*", "blob": "w", "reduce": "mean"}}},
    "load": {"load": {"x": "a.npz::x"}},
    "save": {"save": {"x": "a.npy"}},
    "log": {"log": "x {x}"},
    "metric": {"metric": {"loss": "l / n"}},
    "assert": {"assert": "a > 0", "message": "a is {a}"},
    "sleep": {"sleep": "250ms"},
}  # fmt: skip


def write(folder: Path, text: str | bytes, name: str = "job.yaml") -> str:
    """Write a spec file; return the path as text."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return str(path)


def load(folder: Path, body: str, *overrides: str, **environment: str) -> LoadedSpec:
    """Load ``body`` below the two keys that every spec has."""
    path = write(folder, HEADER + body)
    return load_spec(path, overrides=overrides, environment=environment)


def faults_of(path: str, *overrides: str, values: tuple[str, ...] = ()) -> tuple[Fault, ...]:
    """Return the faults for which a spec is refused."""
    with pytest.raises(SpecError) as caught:
        load_spec(path, overrides=overrides, values=values, environment={})
    return caught.value.faults


def fault(folder: Path, text: str | bytes, *overrides: str) -> Fault:
    """Return the only fault of a spec given as a whole."""
    faults = faults_of(write(folder, text), *overrides)
    assert len(faults) == 1, faults
    return faults[0]


def line_and_column(fault: Fault) -> tuple[int, int]:
    """Return line and column."""
    assert fault.where is not None
    return fault.where.line, fault.where.column
