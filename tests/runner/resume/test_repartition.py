"""Tests of ``runner.repartition``: a checkpoint on other nodes, where readers stand in a pass."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import CheckpointError, JobrunError
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import newest_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.spec.load import load_spec

ROWS = 24
READING = """\
jobrun: 1
name: part
seed: 4
nodes: {{trainer: {{}}, w: {{count: {nodes}}}}}
readers: {{r: {{npy: d.npy, fields: [x], restart: never, limit: 3, shard: node, {keys}}}}}
queues: {{q: {{shared: true}}}}
init: [{{task: i, node: trainer, steps: ["seen = zeros({rows})", {more}]}}]
epoch:
  - {{task: t, node: w_*, read: r, steps: [], write: {{q: [x]}}}}
  - {{task: u, node: trainer, read: q, steps: ["seen[int(x)] += 1"]}}
exit: [{{task: e, node: trainer, steps: [{{save: {{seen: seen.npy}}}}]}}]
stop: [data_finished: r]
"""
INSTANCES = """\
jobrun: 1
name: part
readers: {{r: {{npy: d.npy, fields: [x], restart: never, limit: 5, shard: instance}}}}
init: [{{task: i, steps: ["seen = zeros({rows})"]}}]
epoch: [{{task: t, read: r, instances: {nodes}, hogwild: true, steps: ["add_at(seen, int(x), 1)"]}}]
exit: [{{task: e, steps: [{{save: {{seen: seen.npy}}}}]}}]
stop: [data_finished: r]
"""


class _Runs:
    def __init__(self, folder, spec):
        self.folder, self.spec, self.events = folder, spec, []
        np.save(folder / "d.npy", np.arange(float(ROWS)))

    def run(self, nodes, *, keys="", more="n = 0", **options):
        path = self.folder / "part.yaml"
        path.write_text(self.spec.format(nodes=nodes, rows=ROWS, keys=keys, more=more))
        loaded = load_spec(str(path))
        where = self.folder / "runs"
        options = RunOptions(run_dir=where, accept=("nodes", "epoch"), **options)
        run = newest_run(where, "part")
        if run is None:
            return start_run(loaded, compile_job(loaded).job, options, self.events.append)
        return resume_run(run, options, self.events.append, loaded=loaded)

    def seen(self):
        return np.load(self.folder / "seen.npy").tolist()


@pytest.mark.long
@pytest.mark.parametrize("counts", [(2, 3), (3, 1), (1, 2, 3)])
@pytest.mark.parametrize("shuffle", ["", "shuffle: true"])
def test_other_nodes_give_each_row_that_is_left_once(tmp_path, counts, shuffle):
    runs = _Runs(tmp_path, READING)
    for nodes in counts[:-1]:
        runs.run(nodes, keys=shuffle, max_epochs=2)
    runs.run(counts[-1], keys=shuffle)

    assert runs.seen() == [1.0] * ROWS


def test_redistribution_of_a_pass_is_noted(tmp_path):
    runs = _Runs(tmp_path, READING)
    runs.run(2, max_epochs=1)
    runs.run(3)

    texts = [str(getattr(event, "text", "")) for event in runs.events]
    assert any("what 2 shares had left is divided among 3" in text for text in texts)


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (4, 1)])
def test_other_instances_give_each_row_that_is_left_once(tmp_path, counts):
    runs = _Runs(tmp_path, INSTANCES)
    runs.run(counts[0], max_epochs=2)
    runs.run(counts[1], max_epochs=1)
    runs.run(counts[1])

    assert runs.seen() == [1.0] * ROWS


def test_missing_state_of_a_node_is_not_invented(tmp_path):
    runs = _Runs(tmp_path, READING.replace("task: i, node: trainer", "task: i, node: '*'"))
    runs.spec = runs.spec.replace("epoch:", "  - {{task: j, node: w_*, steps: [k = 1]}}\nepoch:")
    runs.spec = runs.spec.replace("init: [{{", "init:\n  - {{").replace("{more}]}}]", "{more}]}}")
    runs.spec = runs.spec.replace("node: '*'", "node: trainer")
    runs.run(2, max_epochs=1)
    with pytest.raises(CheckpointError) as caught:
        runs.run(3)

    assert caught.value.faults[0].code == "E307"
    assert "w_2" in caught.value.faults[0].message


def test_unsupported_parallel_records_are_refused_with_reason(tmp_path):
    zipped = READING.replace(
        "readers: {{r: {{",
        "readers: {{r: {{zip: [a, b]}}, b: {{counter: {{stop: 24}}, fields: [y], restart: never,"
        " shard: node}}, a: {{",
    )
    runs = _Runs(tmp_path, zipped)
    runs.run(2, max_epochs=1)
    with pytest.raises(JobrunError) as caught:
        runs.run(3)

    assert caught.value.faults[0].code == "E230"
    assert "in the middle of share" in caught.value.faults[0].message
