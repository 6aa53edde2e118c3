"""List specs whose plans show every part of a plan."""

from __future__ import annotations

SPEC = """\
params: {k: 3}
nodes: {a: {count: 3, props: {zone: b}}}
init:
  - {task: d, node: a, rebuild: true, steps: [X = zeros(k)]}
  - {task: i, node: a, needs: [d], steps: [w = X, c = counter(0)]}
epoch:
  tasks:
    - task: t
      node: a
      instances: 2
      setup: {task: {init: [s = 1]}}
      steps: [{if: s > 1, then: [x = w], else: [x = s]}, count_up(c), {loop: k, steps: [{log: hi}]}]
      report: [{steps: [{log: "{w}"}]}]
      outputs: [x]
  setup: {init: [g = 1]}
  report: [{every: 2s, steps: [{log: "{g}"}]}]
metrics: {m: "a_0.w[0]"}
stop: [{epochs: 3}]
expect: ["{of: w > 0, nodes: a, reduce: all}"]
checkpoint: {keep: {best: {metric: m}}}
""".replace('"{of', "{of").replace('all}"', "all}")
# Limits, retries, a host, resources and a remote net.
APART = """\
nodes: {a: {host: there, resources: {gpu: 1}}}
nets: {f: [y = w]}
epoch:
  tasks:
    - {task: t, timeout: 3s, retry: {max: 2, backoff: 1s}, steps: [w = w + 1]}
    - {task: u, on_error: warn, steps: [x = 1]}
  remote: [{net: f, node: a}]
"""
