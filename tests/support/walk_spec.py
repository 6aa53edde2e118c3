"""Hold a small spec whose runs take a moment."""

from __future__ import annotations

SPEC = """\
jobrun: 1
name: walk
seed: 5
params: {rate: 0.5}
init:
  - task: start
    steps:
      - x = rng.standard_normal(32)
      - total = 0.0
epoch:
  - task: step
    steps:
      - x += rate * rng.standard_normal(32)
      - total = total + sum(x)
metrics: {total: total}
stop:
  - epochs: 4
checkpoint: {every: 1ep}
"""
