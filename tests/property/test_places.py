"""Whatever ``validate`` calls ok does not fail for a reason that the spec alone tells."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from jobrun import api
from jobrun.core.errors import JobrunError, SpecError
from jobrun.runner.options import RunOptions
from tests.support.thinning import examples

# Every place where a spec allows an expression, with its text when nothing is tried.
PLACES = {
    "init setup init": "0", "init setup exit": "0", "init report": "0",
    "init task": "1.0", "init rebuilt": "2.0", "init output": "0",
    "group init": "0", "group exit": "0", "group report": "0",
    "task init": "0", "task exit": "0", "instance init": "0", "instance exit": "0",
    "node init": "0", "node exit": "0", "net": "0", "net setup": "0", "net argument": "0",
    "body": "0", "loop": "1", "if": "1", "while": "0", "stop_if": "1", "guard": "0",
    "parallel": "0", "log": "0", "metric step": "0", "assert": "2", "message": "0",
    "call": "0", "op": "0", "run": "0", "task report": "0", "output": "0",
    "second body": "0", "reader": "0", "record": "0", "sent": "0", "received": "0",
    "download setup": "0", "download task": "0", "exit setup": "0", "exit task": "0",
    "exit report": "0", "metrics": "0", "stop": "1", "fail_if": "1", "expect": "0",
    "metric over nodes": "0",
}  # fmt: skip
# What is read: blobs of all kinds of workspaces, outputs of all groups, params, words.
READS = (
    "w", "k", "g", "h", "x", "y", "z", "rec", "row", "p", "failed", "epoch", "iter", "instance",
    "instances", "node.index", "node.count", "start.o", "konst.o", "t.o", "u.o", "reads.o",
    "takes.o", "d.o", "e.o", "t.nothing", "nobody.o", "a.w", "b.w", "a.x", "start.w", "c",
    "count_up(c)", "count_value(c)", "rng.random()", "len(node.name)", "gathered",
)  # fmt: skip
SPEC = """\
jobrun: 1
name: places
nodes: {{a: {{}}, b: {{}}}}
params: {{p: 3}}
nets:
  n: [net = {net}]
  own:
    in: [v]
    out: [o]
    setup: {{task: {{init: [ns = {net setup}]}}}}
    steps: [o = v]
readers: {{rd: {{blobs: {{row: "arange(3) + ({reader})"}}}}}}
queues: {{q: {{}}}}
init:
  setup: {{node: a, init: ["i1 = {init setup init}"], exit: ["i2 = {init setup exit}"]}}
  report: [{{node: a, every: 1ms, steps: ["i3 = {init report}"]}}]
  tasks:
    - {{task: start, node: "*", steps: ["w = {init task}", c = counter(0)],
       outputs: [{{o: "{init output}"}}]}}
    - {{task: konst, node: a, rebuild: true, steps: ["k = {init rebuilt}"], outputs: [{{o: k}}]}}
epoch:
  setup: {{node: a, init: ["g = {group init}"], exit: ["h = {group exit}"]}}
  report: [{{node: a, every: 1ms, steps: ["r1 = {group report}"]}}]
  tasks:
    - task: t
      node: a
      instances: {instances}
      setup:
        task: {{init: ["x = {task init}"], exit: ["x2 = {task exit}"]}}
        instance: {{init: ["z = {instance init}"], exit: ["z2 = {instance exit}"]}}
        node: {{init: ["m1 = {node init}"], exit: ["m2 = {node exit}"]}}
      steps:
        - net: n
        - {{net: own, in: {{v: "{net argument}"}}, out: {{o: fromnet}}}}
        - "y = {body}"
        - {{loop: "int({loop}) % 3", steps: [l = iter]}}
        - {{if: "({if}) != 0", then: [l = 1]}}
        - {{while: "({while}) > 10 ** 9", steps: [l = 2]}}
        - {{guard: left, steps: [{{stop_if: "({stop_if}) == 0"}}, "l = {guard}"]}}
        - {{parallel: [["l1 = {parallel}"], [l2 = 1]]}}
        - {{log: "{{{log}}}"}}
        - {{metric: {{ms: "{metric step}"}}}}
        - {{assert: "({assert}) != -1", message: "{{{message}}}"}}
        - {{call: "helper:same", with: {{v: "{call}"}}, out: called}}
        - {{op: add, in: ["{op}", 1], out: added}}
        - {{run: "true", with: {{V: "{run}"}}}}
      report: [{{every: 1ms, steps: ["r2 = {task report}"]}}]
      outputs: [{{o: "{output}"}}]
    - {{task: u, node: b, {needs}steps: ["s = {second body}"], outputs: [{{o: s}}]}}
    - {{task: reads, node: a, read: rd, steps: ["rec = row + ({record})", "sent = {sent}"],
       write: {{q: [rec]}}, outputs: [{{o: 1}}]}}
    - {{task: takes, node: a, read: q, steps: ["got = rec + ({received})"], outputs: [{{o: 1}}]}}
download:
  setup: {{node: a, init: ["d1 = {download setup}"]}}
  tasks: [{{task: d, node: a, steps: ["gathered = {download task}"], outputs: [{{o: gathered}}]}}]
exit:
  setup: {{node: a, exit: ["e1 = {exit setup}"]}}
  report: [{{node: a, every: 1ms, steps: ["e2 = {exit report}"]}}]
  tasks: [{{task: e, node: a, steps: ["f = {exit task}"], outputs: [{{o: f}}]}}]
metrics: {{m: "{metrics}", over: {{of: "{metric over nodes}", nodes: "*", reduce: max}}}}
stop: [{{epochs: 2}}, {{when: "({stop}) == 10 ** 6"}}]
fail_if: ["({fail_if}) == 10 ** 6"]
expect: ["({expect}) != 10 ** 6"]
"""
# Faults that names, workspaces, groups and order decide, which are all in the spec.
KNOWABLE = {
    *(f"E{number}" for number in range(100, 200)), "E217", "E218", "E219", "E510", "E511", "E512",
}  # fmt: skip


def _tried(values: dict[str, str], folder: Path) -> str:
    """How a spec with these expressions ends: refused, ran, or the codes of its faults."""
    (folder / "helper.py").write_text("def same(v):\n    return v\n")
    path = folder / "places.yaml"
    path.write_text(SPEC.format(**values))
    try:
        prepared = api.prepare(path)
    except SpecError:
        return "refused"
    try:
        for resume, most in (("never", 1), ("must", 0)):
            api.run(prepared, RunOptions(run_dir=folder / "runs", max_epochs=most), resume=resume)
    except JobrunError as error:
        return " ".join(sorted({fault.code for fault in error.faults}))
    return "ran"


def _check(seed: int, count: int) -> dict[str, int]:
    pick = random.Random(seed)
    ended: dict[str, int] = {}
    for _ in range(count):
        values = {
            **PLACES,
            "instances": pick.choice("12"),
            "needs": pick.choice(("", "needs: [t], ")),
        }
        for key in pick.sample(sorted(PLACES), pick.choice((1, 1, 2))):
            values[key] = pick.choice(READS)
        with tempfile.TemporaryDirectory() as folder:
            outcome = _tried(values, Path(folder))
        tried = {key: value for key, value in values.items() if PLACES.get(key) != value}
        assert not KNOWABLE.intersection(outcome.split()), (outcome, tried)
        ended[outcome] = ended.get(outcome, 0) + 1
    return ended


def test_spec_without_anything_tried_runs(tmp_path):
    assert _tried({**PLACES, "instances": "1", "needs": ""}, tmp_path) == "ran"


@pytest.mark.long
def test_reads_in_some_places_are_refused_or_run():
    assert _check(1, 4)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_reads_in_all_places_are_refused_or_run():
    count = examples(80)
    ended = _check(2, count)

    assert ended["refused"] > count / 8
    assert ended["ran"] > count / 8
