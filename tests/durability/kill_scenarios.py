"""Jobs to be killed: each keeps its promises in another way. Small, so that they die often."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PLAIN = """\
jobrun: 1
name: job
seed: 3
init: [{task: start, steps: ["w = zeros(8)", "k = 0", "best = inf"]}]
epoch:
  - task: step
    steps:
      - w += rng.normal(size=8)
      - k = k + 1
      - best = minimum(best, abs(sum(w)))
exit: [{task: out, steps: [{save: {w: "${run.dir}/artifacts/w.npy"}}]}]
metrics: {top: max(w)}
stop: [{epochs: 4}]
"""
LARGE = PLAIN.replace("zeros(8)", "zeros(200000)").replace("size=8)", "size=200000)")
NODES = """\
jobrun: 1
name: job
seed: 4
nodes: {left: {}, right: {count: 2}}
init:
  - {task: a, node: left, steps: ["u = zeros(4)"]}
  - {task: b, node: right, steps: ["v = ones(3) * node.index"]}
epoch:
  - {task: c, node: left, steps: ["u += rng.normal(size=4)"], outputs: [{total: sum(u)}]}
  - {task: d, node: right, needs: [c], steps: ["v = v * 0.5 + c.total"]}
stop: [{epochs: 4}]
"""
READING = """\
jobrun: 1
name: job
seed: 5
readers: {train: {npy: data.npy, fields: [x], batch: 3, shuffle: true}}
init: [{task: start, steps: ["w = zeros(2)", "n = 0"]}]
epoch:
  - {task: fit, read: train, steps: ["w += x[0] * rng.random()", "n = n + len(x)"]}
stop: [{epochs: 3}]
"""
PROGRAM = """\
jobrun: 1
name: job
init: [{task: start, steps: ["n = 0"]}]
epoch:
  - task: count
    steps:
      - n = n + 1
      - run: 'echo $JOBRUN_EPOCH >> $JOBRUN_STATE_DIR/log; sum=$(paste -sd+ $JOBRUN_STATE_DIR/log); echo $((sum)) > $JOBRUN_STATE_DIR/sum'
        state_dir: own
stop: [{epochs: 4}]
"""  # noqa: E501 - a line of bash


@dataclass(frozen=True)
class Scenario:
    """One job.

    Attributes:
        spec: Without ``checkpoint``, which keeps all.
        checkpoint: What the killed copies have instead.
        retained: How many of the newest acknowledged epochs must be there at any instant.
        data: Files that it reads, by name.
        on_disk: Needs a file system that knows blocks.
    """

    spec: str
    checkpoint: str
    retained: int = 2
    data: dict[str, np.ndarray] = field(default_factory=dict)
    on_disk: bool = False

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The spec that keeps all, and the one to be killed, with what they read."""
        folder.mkdir(parents=True, exist_ok=True)
        whole, killed = folder / "whole.yaml", folder / "killed.yaml"
        whole.write_text(self.spec + "checkpoint: {every: 1ep}\n")
        killed.write_text(self.spec + f"checkpoint: {self.checkpoint}\n")
        for name, values in self.data.items():
            np.save(folder / name, values)
        return whole, killed


SCENARIOS: dict[str, Scenario] = {
    "saved at the boundary": Scenario(PLAIN, "{every: 1ep, async: false, keep: {last: 2}}"),
    "saved beside the run": Scenario(PLAIN, "{every: 1ep, async: true, keep: {last: 2}}"),
    "files used again": Scenario(LARGE, "{every: 1ep, async: true, keep: {last: 2}}", on_disk=True),
    "compressed": Scenario(
        LARGE, "{every: 1ep, compression: deflate, keep: {last: 3}}", retained=3
    ),
    "every second epoch": Scenario(PLAIN, "{every: 2ep, keep: {last: 2}}"),
    "the best are kept": Scenario(
        PLAIN, "{every: 1ep, keep: {last: 2, best: {metric: top, mode: max, n: 1}}}"
    ),
    "three nodes, copied elsewhere": Scenario(
        NODES,
        "{every: 1ep, keep: {last: 2}, upload: {to: copies, when: committed, required: true}}",
    ),
    "within epochs": Scenario(
        READING, "{every: 4 records}", retained=3,
        data={"data.npy": np.arange(46.0).reshape(23, 2) / 7},
    ),
    "a program's folder": Scenario(PROGRAM, "{every: 1ep, keep: {last: 2}}"),
}  # fmt: skip
