"""Compiling a spec as a whole."""

from __future__ import annotations

import gc
import subprocess
import sys
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import SpecError
from jobrun.graph.job_text import render_job
from jobrun.spec.load import load_spec
from tests.support.compiling import compile_text, faults_of, job_of
from tests.support.golden import GOLDEN, check_golden

# The example of the language's description, unchanged.
EXAMPLE = """\
# yaml-language-server: $schema=../schemas/job.schema.json
jobrun: 1
name: digits-kmeans
description: Lloyd's algorithm on the 1,797 handwritten digits.
seed: 7
params:
  k: {type: int, default: 10, min: 2, help: number of clusters}
  tol: 1e-4                          # short form: type from the value. 1e-4 is a float here, `no` is text
nodes: {trainer: {}}                 # {count: 4} makes trainer_0 … trainer_3; without nodes: one node, `local`
nets:
  assign:
    - d2 = sum(C * C, axis=1) - 2 * X @ C.T
    - label = argmin(d2, axis=1)
init:                                # what init makes is the state, and is checkpointed …
  - task: data
    node: trainer
    rebuild: true                    # … except what is rebuilt at every start: constants, checked by digest, never stored
    steps:
      - load: {X: "data/digits.npz::data"}
  - task: seeds
    node: trainer
    needs: [data]
    steps:
      - C = X[rng.choice(len(X), k, replace=False)]
      - shift = inf
epoch:                               # what is first made here is scratch; writes to state go to the state
  - task: lloyd
    node: trainer
    steps:
      - net: assign
      - op: segment_sum
        in: [X, label]
        out: [sums, n]
        num_segments: k
      - Cnew = where(n[:, None] > 0, sums / maximum(n, 1)[:, None], C)
      - shift = max(sqrt(sum((Cnew - C) ** 2, axis=1)))
      - C = Cnew
    report:
      - {every: 5s, steps: [{log: "shift {shift:.3g}"}]}
exit:
  - task: export
    node: trainer
    steps:
      - save: {C: "${run.dir}/artifacts/centroids.npy"}
metrics: {shift: shift}
stop:                                # stop conditions, evaluated after each epoch; any of them stops the job
  - when: shift < tol
  - epochs: 100
checkpoint: {every: 1ep, keep: {last: 3, every: 10ep}}
expect:                              # for smoke jobs in CI: exit code 9 when one does not hold at the end
  - shift < 0.01
"""  # noqa: E501 - unchanged

EVERYTHING = """\
params: {k: 3, rate: 0.5}
nodes: {main: {}, tr: {count: 2, props: {zone: b}}}
nets:
  plain: [d = w * rate]
  own:
    in: [a]
    out: [b]
    setup: {task: {init: [total = 0.0]}, node: {init: [limit = 9.0]}}
    steps:
      - total = total + a
      - {if: total > limit, then: [b = limit], else: [b = total]}
init:
  - {task: data, node: '*', rebuild: true, steps: [{load: {X: "x.npz::x"}}]}
  - task: start
    node: '*'
    needs: [data]
    steps: [w = X * 0, c = counter(0), t = 1, del t]
    outputs: [{rows: len(X)}]
epoch:
  setup: [{init: [g = 1.0], exit: [{log: "{failed}"}]}]
  report: [{every: 2s, steps: [{log: "w {w}"}], node: main}]
  tasks:
    - task: work
      node: tr
      steps:
        - net: plain
        - net: own
          in: {a: sum(d) + g}
          out: {b: e}
        - loop: k
          as: i
          name: outer
          steps:
            - while: e > i
              steps: [e = e - 1, {stop_if: e > 100, stop: outer}]
        - guard: early
          steps: [{stop_if: e < 0}, {assert: e >= 0, message: "e is {e}"}]
        - {if: early, then: [{log: early}], elif: [{if: e > 1, then: [e = 0]}]}
        - parallel:
            - ['p = rng.normal(size=k)']
            - [q = e]
        - {call: "lib:f", with: {x: p}, inout: [w], out: r}
        - {run: "echo $JOBRUN_N", env: [HOME], with: {n: q}, out: {s: "s.npz::s"}}
        - {metric: {loss: r + s}}
      outputs: [{loss: r}]
      report: [{every: 1s, steps: [{log: "w {w}"}]}]
    - task: count
      node: main
      instances: 4
      setup: {instance: {init: [own_ = 0], exit: [{log: "{own_} {failed}"}]}}
      steps: [count_up(c), own_ = own_ + 1]
      outputs: [own_]
    - {task: sum_up, node: main, needs: [count, work], steps: [w = w + count_value(c)]}
download:
  - {task: gather, node: main, steps: [n = len(count.own_)], outputs: [n]}
exit:
  - {task: leave, node: main, steps: [{save: {w: "${run.dir}/w.npy"}}, {log: "{n} {start.rows}"}]}
metrics: {loss: {of: work.loss, nodes: tr, reduce: max}, size: main.w}
stop: [{no_improvement: {of: loss, for: 3}}, {time: 2h}, {when: main.w > 10}, {epochs: 9}]
fail_if: [{of: any(w > 1e9), nodes: '*', reduce: any}]
checkpoint: {every: 10m, keep: {last: 2, best: {metric: loss, n: 2}}, on_error: warn}
expect: [gather.n == 4]
"""


def test_the_example_of_the_language_compiles_unchanged(tmp_path):
    path = tmp_path / "kmeans.yaml"
    path.write_text(EXAMPLE)

    compiled = compile_job(load_spec(str(path)))

    assert compiled.warnings == ()
    assert compiled.job.exactness.exact
    assert compiled.job.state == (("trainer", ("C", "shift")),)
    assert compiled.job.constants == (("trainer", ("X",)),)
    check_golden(GOLDEN / "compile" / "kmeans.txt", render_job(compiled.job))


def test_a_spec_of_everything_gives_this_graph(tmp_path):
    job = job_of(tmp_path, EVERYTHING)

    check_golden(GOLDEN / "compile" / "everything.txt", render_job(job))


def test_the_same_spec_gives_the_same_graph_any_number_of_times(tmp_path):
    path = tmp_path / "kmeans.yaml"
    path.write_text(EXAMPLE)
    loaded = load_spec(str(path))

    first, second = compile_job(loaded).job, compile_job(loaded).job

    assert first == second
    assert render_job(first) == render_job(second)
    assert render_job(compile_job(load_spec(str(path))).job) == render_job(first)


@pytest.mark.long
def test_another_hash_seed_gives_the_same_graph(tmp_path):
    (tmp_path / "kmeans.yaml").write_text(EXAMPLE)
    program = dedent(
        """\
        from jobrun.compile.pipeline import compile_job
        from jobrun.graph.job_text import render_job
        from jobrun.spec.load import load_spec
        print(render_job(compile_job(load_spec("kmeans.yaml")).job))
        """
    )

    rendered = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2, 3)
    }

    assert len(rendered) == 1


def test_compiling_imports_no_numpy_and_no_user_code(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: x\ninit: [{task: i, steps: [w = 1.0]}]\n"
        "epoch: [{task: t, steps: [{call: 'boom:f', with: {w: w}}]}]\nstop: [{epochs: 1}]\n"
    )
    (tmp_path / "boom.py").write_text("raise SystemExit('imported')")
    program = dedent(
        """\
        import sys
        from jobrun.compile.pipeline import compile_job
        from jobrun.spec.load import load_spec
        compile_job(load_spec("job.yaml"))
        print([name for name in ("numpy", "h5py", "boom") if name in sys.modules])
        """
    )

    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert result.stdout == "[]\n"


def test_all_faults_are_reported_together(tmp_path):
    faults = faults_of(
        tmp_path,
        """\
        nets: {loop: [{net: loop}]}
        readers: {r: {npz: a.npz}}
        epoch:
          - {task: a, needs: [b], steps: [y = nothing, {net: nt}]}
          - {task: b, needs: [zz], steps: [w = w + 1, 'v = sin(']}
        metrics: {m: u}
        stop: []
        """,
    )

    assert {fault.code for fault in faults} == {
        "E101",
        "E119",
        "E135",
        "E137",
        "E143",
        "E145",
        "E170",
        "E180",
    }


def test_the_garbage_collector_is_left_as_it_was(tmp_path):
    assert gc.isenabled()
    job_of(tmp_path, "")
    assert gc.isenabled()

    gc.disable()
    try:
        job_of(tmp_path, "")
        assert not gc.isenabled()
    finally:
        gc.enable()


_TEXTS = [
    "x = w", "y = x", "x += 1", "w = w + 1", "del x", "stop", "{stop_if: w > 1}", "{log: hi}",
    "{net: f}", "{net: g, in: {a: w}, out: {b: x}}", "z = nosuch", "v = 'sin('",
]  # fmt: skip
_BLOCKS = ["{loop: 2, steps: [%s]}", "{if: w > 1, then: [%s]}", "{guard: g1, steps: [%s]}"]


def _blocks(inner):
    bodies = st.lists(inner, min_size=1, max_size=3).map(", ".join)
    return st.builds(lambda block, body: block % body, st.sampled_from(_BLOCKS), bodies)


_STEPS = st.recursive(st.sampled_from(_TEXTS), _blocks, max_leaves=6)


@pytest.mark.long
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_STEPS, min_size=1, max_size=4), st.integers(1, 3), st.booleans())
def test_any_spec_compiles_twice_alike(tmp_path, steps, instances, ordered):
    needs = "needs: [a], " if ordered else ""
    text = f"""\
        nets: {{f: [x = 1, {{stop_if: x > w}}], g: {{in: [a], out: [b], steps: [b = a]}}}}
        epoch:
          - {{task: a, steps: [{", ".join(steps)}]}}
          - {{task: b, {needs}instances: {instances}, steps: [{", ".join(reversed(steps))}]}}
        """

    results = []
    for _ in range(2):
        try:
            job = compile_text(tmp_path, text).job
            results.append((job, render_job(job)))
        except SpecError as error:
            results.append(error.faults)

    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["digits-kmeans", "digits-pipeline", "logistic-sgd", "two-nodes"])
def test_the_specs_of_the_repository_compile_without_a_warning(name, request):
    path = request.config.rootpath / "specs" / f"{name}.yaml"

    assert compile_job(load_spec(str(path))).warnings == ()
