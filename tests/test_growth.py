"""The work of twice as much of anything that may be large is at most twice as much.

Work is counted line by line (``tests/support/work.py``), so that a few dozen items are enough.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.api import prepare, run
from jobrun.checkpoint.read.load import load
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.cli.formatting import render_json
from jobrun.compile.analysis import missing_blobs
from jobrun.compile.plan_document import plan_json
from jobrun.compile.plan_text import blob_lines, plan_text
from jobrun.compile.types.job_types import infer_job_types
from jobrun.core.errors import SpecError
from jobrun.core.events import Measured
from jobrun.graph import drawing
from jobrun.graph.drawing import svg
from jobrun.runner.options import RunOptions
from jobrun.runner.preflight.checks import preflight
from jobrun.runner.rundir.logs import event_json
from jobrun.runner.rundir.run_directories import METRICS_NAME
from jobrun.spec.format_text import format_file
from jobrun.tools.runs.metrics import read_metrics, render_csv
from jobrun.tools.runs.summarise_runs import NewestFirst
from tests.support.many_runs import make_runs
from tests.support.work import growing_lines

# Items of each kind; then twice as many.
COUNT = 60
HEAD = """\
jobrun: 1
name: large
stop: [{epochs: 2}]
checkpoint: {every: 1ep, keep: {last: 2}, async: false}
"""


def _lines(text: str, count: int) -> str:
    """Text with one line per item: ``{i}``, and ``{j}`` for the item before it."""
    return "".join(text.format(i=i, j=max(0, i - 1)) + "\n" for i in range(count))


def _names(text: str, count: int) -> str:
    return ", ".join(text.format(i=i) for i in range(count))


def _init(count: int, text: str = "x{i} = zeros(3)") -> str:
    return f"init: [{{task: start, steps: [{_names(text, count)}]}}]\n"


# The specs. Each is a function of how many items it has.


def tasks(count: int) -> str:
    line = (
        "- {{task: t{i}, needs: [{needs}], steps: [y = x{i} * 2, x{i} = y + 1, 'x{i} += x0[0]']}}"
    )
    work = "".join(line.format(i=i, needs=f"t{i - 1}" if i else "") + "\n" for i in range(count))
    return HEAD + _init(count) + "epoch:\n" + work


def independent_tasks(count: int) -> str:
    return HEAD + _init(count) + "epoch:\n" + _lines("- {{task: t{i}, steps: [x{i} += 1]}}", count)


def calling_tasks(count: int) -> str:
    line = (
        "- {{task: t{i}, needs: [{needs}], steps: [{{call: 'numpy:copy', with: {{a: x{i}}}, "
        "out: y{i}}}, y{i} += 1, x{i} += y{i}]}}"
    )
    work = "".join(line.format(i=i, needs=f"t{i - 1}" if i else "") + "\n" for i in range(count))
    return HEAD + _init(count) + "epoch:\n" + work


def outputs(count: int) -> str:
    first = _lines("- {{task: t{i}, steps: [x{i} += 1], outputs: [x{i}]}}", count)
    then = _lines("- {{task: u{i}, needs: [t{i}], steps: [y{i} = t{i}.x{i}]}}", count)
    return HEAD + _init(count) + "epoch:\n" + first + then


def writers(count: int) -> str:
    """Tasks that write to one queue."""
    work = _lines("- {{task: t{i}, steps: [v = x{i}], write: {{q: [v]}}}}", count)
    read = "- {task: sum, read: q, steps: [total += v]}\n"
    start = _init(count).replace("steps: [", "steps: [total = zeros(3), ")
    return HEAD + "queues: {q: {}}\n" + start + "epoch:\n" + work + read


def queues(count: int) -> str:
    declarations = "queues:\n" + _lines("  q{i}: {{}}", count)
    work = _lines("- {{task: t{i}, steps: [v = epoch], write: {{q{i}: [v]}}}}", count)
    read = _lines("- {{task: u{i}, read: q{i}, steps: [x{i} += v]}}", count)
    return HEAD + declarations + _init(count) + "epoch:\n" + work + read


def readers(count: int) -> str:
    declarations = "readers:\n" + _lines("  r{i}: {{counter: {{stop: 3}}, fields: [n]}}", count)
    work = _lines("- {{task: t{i}, read: r{i}, steps: [x{i} += n]}}", count)
    return HEAD + declarations + _init(count) + "epoch:\n" + work


def statements(count: int) -> str:
    steps = _lines("  - x{i} += x{j}", count)
    return HEAD + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def branches(count: int) -> str:
    steps = _lines("  - {{if: 'x{i}[0] > 1', then: [x{i} += 1], else: [x{i} -= 1]}}", count)
    return HEAD + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def loops(count: int) -> str:
    steps = _lines("  - {{loop: 3, steps: [x{i} += x{j}]}}", count)
    return HEAD + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def parallel_branches(count: int) -> str:
    steps = _lines("    - [x{i} += 1]", count)
    return HEAD + _init(count) + "epoch:\n- task: t\n  steps:\n  - parallel:\n" + steps


def calls(count: int) -> str:
    steps = _lines("  - {{call: 'numpy:copy', with: {{a: x{i}}}, out: x{i}}}", count)
    return HEAD + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def nets(count: int) -> str:
    declarations = "nets:\n" + _lines("  n{i}: {{in: [a], out: [b], steps: [b = a + 1]}}", count)
    steps = _lines("  - {{net: n{i}, in: {{a: x{i}}}, out: {{b: x{i}}}}}", count)
    return HEAD + declarations + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def uses_of_a_net(count: int) -> str:
    declarations = "nets:\n  n: {in: [a], out: [b], steps: [b = a + 1]}\n"
    steps = _lines("  - {{net: n, in: {{a: x{i}}}, out: {{b: x{i}}}}}", count)
    return HEAD + declarations + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def nodes(count: int) -> str:
    return (
        HEAD
        + f"nodes: {{w: {{count: {count}}}}}\n"
        + "init: [{task: start, node: w, steps: [x = zeros(3), m = 0.0]}]\n"
        + "epoch: [{task: t, node: w, steps: [x += 1, m = mean(x)], outputs: [m]},"
        + " {task: u, node: w, needs: [t], steps: [x += t.m]}]\n"
        + "download: [{task: all, node: w_0, steps: "
        + "[{pull: {xs: {from: w, blob: x, reduce: stack}}}]}]\n"
        + "metrics: {m: {of: m, nodes: w_*, reduce: mean}}\n"
    )


def metrics(count: int) -> str:
    declarations = "metrics:\n" + _lines("  m{i}: x{i}[0]", count)
    conditions = "fail_if: [" + _names("'x{i}[0] < 0'", count) + "]\n"
    return (
        HEAD + declarations + conditions + _init(count) + "epoch: [{task: t, steps: [x0 += 1]}]\n"
    )


def params(count: int) -> str:
    declarations = "params:\n" + _lines("  p{i}: {i}", count)
    steps = _lines("  - x{i} += p{i}", count)
    return HEAD + declarations + _init(count) + "epoch:\n- task: t\n  steps:\n" + steps


def counting_tasks(count: int) -> str:
    """Tasks one after the other that share one counter."""
    line = "- {{task: t{i}, needs: [{needs}], steps: ['atomic_add(c, 1)']}}"
    work = "".join(line.format(i=i, needs=f"t{i - 1}" if i else "") + "\n" for i in range(count))
    return HEAD + "init: [{task: start, steps: [c = counter(0)]}]\nepoch:\n" + work


def reporting_tasks(count: int) -> str:
    line = "- {{task: t{i}, steps: [x{i} += 1], report: [{{every: 1s, steps: [y{i} = epoch]}}]}}"
    return HEAD + _init(count) + "epoch:\n" + _lines(line, count)


def setups(count: int) -> str:
    line = "- {{task: t{i}, setup: {{task: {{init: [y = 1]}}}}, steps: [x{i} += y]}}"
    return HEAD + _init(count) + "epoch:\n" + _lines(line, count)


def pulls(count: int) -> str:
    declarations = f"nodes: {{w: {{count: {count}}}}}\n"
    start = "init: [{task: start, node: w, steps: [x = zeros(3)]}]\n"
    line = (
        "- {{task: t{i}, node: w_{i}, steps: [{{pull: {{y: {{from: w_{j}, blob: x}}}}}}, x = y]}}"
    )
    apart = line.replace("x = y", "z = y")
    return HEAD + declarations + start + "epoch:\n" + _lines(apart, count)


def temporaries(count: int) -> str:
    """Steps of one task over names that only it has."""
    steps = _lines("  - y{i} = x0 + {i}\n  - del y{i}", count)
    return HEAD + _init(1) + "epoch:\n- task: t\n  steps:\n" + steps


def item_changes(count: int) -> str:
    """One statement after another that changes one blob."""
    steps = _lines("  - 'x0[{i} % 3] += 1'", count)
    return HEAD + _init(1) + "epoch:\n- task: t\n  steps:\n" + steps


SPECS: dict[str, Callable[[int], str]] = {
    function.__name__: function
    for function in (
        tasks,
        independent_tasks,
        calling_tasks,
        outputs,
        writers,
        queues,
        readers,
        statements,
        branches,
        loops,
        parallel_branches,
        calls,
        nets,
        uses_of_a_net,
        nodes,
        metrics,
        params,
        counting_tasks,
        reporting_tasks,
        setups,
        pulls,
        temporaries,
        item_changes,
    )
}


def _kinds(quick: tuple[str, ...] = ()) -> list[Any]:
    """All kinds of specs; those not named are for the long tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in SPECS]


def check(
    make: Callable[[int], Callable[[], object]], count: int = COUNT, known: tuple[str, ...] = ()
) -> None:
    growing = [
        line for line in growing_lines(make, count) if not any(path in line for path in known)
    ]

    assert not growing, "\n".join(growing)


@pytest.fixture
def write(tmp_path):
    """Write a spec of so many items."""

    def write(name: str, count: int) -> Path:
        path = tmp_path / "job.yaml"
        # Behind 256 comments, because Python keeps the numbers of the lines before them.
        path.write_text("#\n" * 256 + SPECS[name](count))
        return path

    return write


@pytest.mark.parametrize("name", _kinds(("tasks", "outputs", "nodes", "branches")))
def test_a_spec_is_compiled(name, write):
    def make(count):
        path = write(name, count)
        return lambda: prepare(path)

    check(make)


@pytest.mark.parametrize("name", _kinds(("tasks", "nodes")))
def test_a_spec_is_formatted(name, write):
    def make(count):
        path = write(name, count)
        return lambda: format_file(str(path))

    # A column above 256 is an int of its own.
    check(make, known=("spec/yaml/tree_builder.py",))


@pytest.mark.parametrize("name", _kinds(("tasks",)))
def test_a_machine_is_checked_for_a_job(name, write):
    def make(count):
        path = write(name, count)
        job = prepare(path).job
        return lambda: preflight(job, path.parent)

    check(make)


def test_a_fault_of_each_task_is_reported(tmp_path, monkeypatch):
    # The nearest name is looked for among so many.
    monkeypatch.setattr(missing_blobs, "_MOST_NAMES", 10)
    path = tmp_path / "job.yaml"
    work = "- {{task: t{i}, steps: [x{i} += other{i}]}}"

    def make(count):
        path.write_text(HEAD + _init(count) + "epoch:\n" + _lines(work, count))

        def refuse() -> None:
            with pytest.raises(SpecError) as caught:
                prepare(path)
            assert len(caught.value.faults) == count

        return refuse

    check(make)


@pytest.mark.parametrize("name", _kinds(("tasks",)))
def test_a_job_is_shown(name, write):
    def make(count):
        job = prepare(write(name, count)).job

        def show() -> None:
            types = infer_job_types(job)
            plan_text(job, types.owned, types.task_blobs)
            render_json(plan_json(job, types.owned, types.task_blobs))
            for draw in (drawing.ascii, drawing.mermaid, drawing.dot, svg):
                draw(job, blob_lines(types.task_blobs))

        return show

    check(make)


@pytest.mark.long
@pytest.mark.parametrize("name", SPECS)
def test_a_job_is_run(name, write, tmp_path):
    def make(count):
        job = prepare(write(name, count))
        return lambda: run(job, RunOptions(run_dir=tmp_path / str(count)), resume="never")

    # Not yet linear: it keeps, for each step, the names that are live there. And how many threads
    # reports need depends on which of them wait at the same time.
    threads = ("/threads/thread_pool.py", "/context/context_variables.py")
    check(make, known=("/codegen/flow_graph.py", "/codegen/copy_elision.py", *threads))


@pytest.mark.long
@pytest.mark.parametrize("keep", ["", ", keep: {last: 2}"], ids=["all kept", "two kept"])
def test_epochs_are_run_and_resumed(keep, tmp_path):
    path = tmp_path / "job.yaml"

    def make(count):
        path.write_text(
            "jobrun: 1\nname: long\n"
            "init: [{task: start, steps: [x = zeros(3)]}]\n"
            "epoch: [{task: t, steps: [x += 1, {metric: {m: 'x[0]'}}]}]\n"
            f"stop: [{{epochs: {count}}}]\n"
            f"checkpoint: {{every: 1ep, async: false{keep}}}\n"
        )
        options = RunOptions(run_dir=tmp_path / str(count))

        def go() -> None:
            run(path, replace(options, max_epochs=count // 2), resume="never")
            run(path, options, resume="must")

        return go

    check(make)


def test_records_are_read(tmp_path):
    path = tmp_path / "job.yaml"

    def make(count):
        path.write_text(
            "jobrun: 1\nname: long\n"
            f"readers: {{r: {{counter: {{stop: {count}}}, fields: [n], shuffle: true}}}}\n"
            "init: [{task: start, steps: [x = zeros(3)]}]\n"
            "epoch: [{task: t, read: r, steps: [x += n]}]\n"
            "stop: [{epochs: 1}]\n"
            "checkpoint: {every: 1ep, async: false}\n"
        )
        job = prepare(path)
        return lambda: run(job, RunOptions(run_dir=tmp_path / str(count)), resume="never")

    check(make, 100)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3),
        pytest.param([np.zeros(2), 1.5], marks=pytest.mark.long),
        pytest.param("text", marks=pytest.mark.long),
    ],
    ids=["arrays", "lists", "texts"],
)
def test_blobs_are_saved_and_loaded(value, tmp_path):
    def make(count):
        def save_and_load() -> None:
            values = {f"x{number}": copy.deepcopy(value) for number in range(count)}
            writer = NodeWriter("n")
            for epoch in (1, 2):
                path = str(tmp_path / f"{count}-{epoch}.h5")
                # What seems to grow is measured again.
                Path(path).unlink(missing_ok=True)
                writer.write(path, epoch=epoch, run_id="r", values=values)
            with open_state(path) as file:
                load(file)

        return save_and_load

    check(make)


def test_runs_are_listed(tmp_path):
    def make(count):
        make_runs(tmp_path / str(count), count)
        return lambda: list(NewestFirst(tmp_path / str(count)).runs(lambda _: True))

    check(make)


def test_runs_are_completed(tmp_path):
    def make(count):
        make_runs(tmp_path / str(count), count)
        return lambda: [*NewestFirst(tmp_path / str(count)).runs(lambda _path: True)]

    check(make)


def test_metrics_are_read(tmp_path):
    def make(count):
        run_dir = tmp_path / str(count)
        run_dir.mkdir(exist_ok=True)
        lines = [
            event_json(Measured(f"m{number}", 0.5, epoch, "t"))
            for epoch in range(count)
            for number in range(3)
        ]
        (run_dir / METRICS_NAME).write_text("\n".join(lines) + "\n")
        return lambda: render_csv(read_metrics(run_dir))

    check(make, 200)
