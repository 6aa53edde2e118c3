from __future__ import annotations

from jobrun.tools.profile.profiler import labels
from tests.support.compiling import compile_text

SPEC = """\
nets: {f: [b = a @ a]}
init: [{task: start, steps: ["a = ones((2, 2))", x = 1, {log: hi}]}]
epoch:
  - task: t
    setup: {node: {init: [s = 1]}, task: {init: [r = rng.normal()]}}
    steps:
      - a = a + x
      - x += 1
      - "a[0] *= 2"
      - "a[1] = sum(a)"
      - c = a
      - {net: f}
      - {loop: 2, steps: [d = -c]}
      - {call: "m:f", with: {a: a}, out: e}
      - {op: maximum, in: [c, 1], out: g}
      - del g
    report: [{every: 1s, steps: [{log: "{x}"}]}]
stop: [{epochs: 1}]
"""


def test_each_step_has_a_word_for_what_it_does(tmp_path):
    found = labels(compile_text(tmp_path, SPEC).job)

    body = {path.removeprefix("epoch/t/"): word for path, word in found.items()}
    assert [body[f"steps[{number}]"] for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)] == [
        "+",
        "+=",
        "[] *=",
        "[] = sum",
        "copy",
        "net f",
        "loop",
        "call m:f",
        "maximum",
        "del",
    ]
    assert body["steps[6].steps[0]"] == "-"
    assert body["setup.task.init[0]"] == "rng.normal"
    assert body["setup.node.init[0]"] == "constant"
    assert body["report[0].steps[0]"] == "log"
    assert found["init/start/steps[2]"] == "log"
