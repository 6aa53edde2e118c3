"""The end of the data ends a job where `stop` says so, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun import api
from jobrun.core.events import EpochEnded
from jobrun.runner.options import RunOptions
from tests.support.compiling import compile_text, fault_of

SPEC = """\
jobrun: 1
name: ends
init: [{{task: start, steps: [average = 0.0, seen = 0]}}]
readers: {{rows: {{{source}, limit: 5, restart: never}}{more}}}
epoch:
  - task: read
    read: {read}
    setup: {{task: {{init: [n = 0, total = 0.0], exit: [average = total / n]}}}}
    steps: [n += 1, total += sum(x), seen += 1]
stop: [{stop}]
checkpoint: {{async: false}}
"""
STREAM = """\
class Rows:
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for number in range(self.count):
            yield float(number)
"""
SOURCES = {
    "npz": "npz: rows.npz, fields: {x: x}, batch: 10",
    "csv": "csv: rows.csv, fields: [x], batch: 10",
    "shuffled": "npz: rows.npz, fields: {x: x}, batch: 10, shuffle: true",
    "drop_last": "npz: rows.npz, fields: {x: x}, batch: 9, drop_last: true",
    "counter": "counter: {stop: 20}, fields: [x]",
    "call": "'call': 'stream:Rows', with: {count: 20}, fields: [x]",
}


@pytest.fixture
def folder(tmp_path):
    rows = np.arange(200.0)
    np.savez(tmp_path / "rows.npz", x=rows)
    (tmp_path / "rows.csv").write_text("x\n" + "\n".join(str(row) for row in rows) + "\n")
    (tmp_path / "stream.py").write_text(STREAM)
    return tmp_path


def _run(folder, text, **options):
    path = folder / "job.yaml"
    path.write_text(text)
    epochs: list[int] = []

    def listen(event):
        if isinstance(event, EpochEnded):
            epochs.append(event.epoch)

    settings = RunOptions(run_dir=folder / "runs", **options)
    result = api.run(path, settings, resume="auto", listener=listen)
    return result, epochs


@pytest.mark.parametrize("source", SOURCES)
def test_rows_that_are_a_multiple_of_the_limit_make_no_empty_epoch(folder, source):
    last = 5 if source == "drop_last" else 4
    text = SPEC.format(source=SOURCES[source], more="", read="rows", stop="data_finished: rows")

    result, epochs = _run(folder, text)

    assert result.exit_code == 0
    assert epochs == [*range(1, last + 1)]


def test_resumed_run_sees_the_end_of_its_data_too(folder):
    text = SPEC.format(source=SOURCES["call"], more="", read="rows", stop="data_finished: rows")

    epochs = [_run(folder, text, max_epochs=1)[1] for _ in range(5)]

    assert epochs == [[1], [2], [3], [4], []]


def test_zipped_readers_end_with_the_shortest(folder):
    text = SPEC.format(
        source="counter: {stop: 20}, fields: [x]",
        more=", other: {counter: {stop: 99}, fields: [y], restart: never}, "
        "both: {zip: [rows, other], limit: 5}",
        read="both",
        stop="data_finished: both",
    )

    assert _run(folder, text)[1] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("setup", "task", "lr"),
    [
        ("setup: {exit: ['lr *= 0.5']}, ", "", 0.5**5),
        ("", "setup: {node: {init: ['lr *= 0.5']}}, ", 0.5**5),
        ("", "setup: {task: {exit: ['lr *= 0.5']}}, ", 0.5**5),
        ("", "setup: {instance: {exit: ['lr *= 0.5']}}, ", 0.5**5),
        ("", "report: [{every: 1h, steps: ['lr *= 0.5']}], ", 0.5**5),
        ("", "", 1.0),
    ],
)
def test_all_epochs_run_after_the_end_of_the_data(folder, setup, task, lr):
    text = f"""\
jobrun: 1
name: ends
init: [{{task: start, steps: ['n = 0', 'lr = 1.0']}}]
readers: {{src: {{counter: {{stop: 2}}, fields: [x], restart: never}}}}
epoch: {{{setup}tasks: [{{task: t, {task}read: src, steps: [n += x]}}]}}
stop: [epochs: 5]
expect: [n == 1, lr == {lr}]
"""

    result, epochs = _run(folder, text)

    assert (result.exit_code, epochs) == (0, [1, 2, 3, 4, 5])


def test_all_shares_of_all_nodes_have_to_end(folder):
    text = """\
jobrun: 1
name: ends
nodes: {a: {count: 2}}
init: [{task: start, node: '*', steps: [seen = 0]}]
readers: {rows: {npz: rows.npz, fields: {x: x}, batch: 10, limit: 4, restart: never, shard: node}}
epoch: [{task: read, node: '*', read: rows, steps: [seen += len(x)]}]
stop: [data_finished: rows]
expect: [a_0.seen == 100, a_1.seen == 100]
"""

    result, epochs = _run(folder, text)

    assert (result.exit_code, epochs) == (0, [1, 2, 3])


READ = "readers: {r: {counter: {stop: 9}, fields: [x], restart: never}}\n"


@pytest.mark.parametrize(
    ("epoch", "stop", "warned"),
    [
        ("{task: t, read: r, steps: [w = w + x]}", "epochs: 9", True),
        ("{task: t, read: r, steps: [w = w + x]}", "time: 1h", True),
        ("{task: t, read: r, steps: [w = w + x]}", "data_finished: r", False),
        ("{task: t, read: r, steps: [w = w + x]}", "endless: true", False),
        ("{task: t, read: r, steps: [y = x]}, {task: u, steps: [w = w + 1]}", "epochs: 9", False),
        ("{task: t, read: r, steps: [], write: {q: [x]}}, {task: u, read: q, steps: [w = w + x]}",
         "epochs: 9", True),
        ("{task: t, read: r, steps: [w = w + x]}, {task: u, needs: [t], steps: [w = w / 2]}",
         "epochs: 9", False),
    ],
)  # fmt: skip
def test_epochs_that_may_have_no_record_are_warned_of(tmp_path, epoch, stop, warned):
    queues = "queues: {q: {}}\n" if "q" in epoch else ""
    compiled = compile_text(tmp_path, f"{READ}{queues}epoch: [{epoch}]\nstop: [{stop}]\n")

    assert len(compiled.job.stop) == 1
    assert [fault.code for fault in compiled.warnings] == ["W144"] * warned


@pytest.mark.parametrize(
    ("reader", "stop"),
    [
        ("{counter: {stop: 9}, fields: [x], restart: never, limit: 0}", "data_finished: r"),
        ("{counter: {stop: 9}, fields: [x], limit: 0}", "when: w > 1"),
        ("{npz: a.npz, fields: [x], limit: 0}", "when: w > 1"),
        ("{counter: {start: 3}, fields: [x], restart: never, limit: 2}", "data_finished: r"),
    ],
)
def test_job_whose_epochs_read_nothing_for_ever_is_refused(tmp_path, reader, stop):
    text = f"readers: {{r: {reader}}}\nepoch: [{{task: t, read: r, steps: [w = w + x]}}]\n"

    assert fault_of(tmp_path, f"{text}stop: [{stop}]\n").code == "E512"
    for other in ("epochs: 3", "time: 1h", "endless: true"):
        compile_text(tmp_path, f"{text}stop: [{stop}, {other}]\n")


COUNTER = "counter: {stop: 9}, fields: [x], restart: never"


@pytest.mark.parametrize(
    ("reader", "epoch", "refused"),
    [
        # Nothing that the condition reads changes without records.
        (COUNTER, "{task: t, read: r, steps: [w = w + x]}, {task: u, needs: [t], steps: [m = w]}",
         True),
        (COUNTER, "{task: t, read: r, steps: [w = w + x]}, {task: u, steps: [m = 1]}", True),
        (COUNTER, "{task: t, read: r, steps: [m = x]}, {task: u, steps: [w = w + 1]}", False),
        (COUNTER, "{task: t, read: r, setup: {task: {init: [w += 1]}}, steps: [m = x]}, "
         "{task: u, steps: [m = 1]}", False),
        ("counter: {stop: 9}, fields: [x]", "{task: t, read: r, steps: [w = w + x]}", False),
        ("counter: {}, fields: [x], restart: never, limit: 2",
         "{task: t, read: r, steps: [w = w + x]}, {task: u, steps: [m = 1]}", False),
        ("'call': 'stream:Rows', fields: [x], restart: never",
         "{task: t, read: r, steps: [w = w + x]}, {task: u, steps: [m = 1]}", False),
    ],
)  # fmt: skip
def test_condition_that_only_records_change_needs_another_when_the_data_end(
    tmp_path, reader, epoch, refused
):
    text = f"readers: {{r: {{{reader}}}}}\nepoch: [{epoch}]\nstop: [{{when: w > 300}}"
    if not refused:
        compile_text(tmp_path, f"{text}]\n")
        return
    fault = fault_of(tmp_path, f"{text}]\n")
    assert fault.code == "E521"
    assert "add {data_finished: r} to 'stop'" in fault.mend
    for other in ("data_finished: r", "epochs: 3", "time: 1h", "endless: true"):
        compile_text(tmp_path, f"{text}, {{{other}}}]\n")
