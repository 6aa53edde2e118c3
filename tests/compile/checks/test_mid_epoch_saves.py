"""Which jobs can be saved between two records; all others are refused with the reason."""

from __future__ import annotations

import pytest

from tests.support.compiling import compile_text, faults_of, job_of

EVERY = "checkpoint: {every: 50 records}\n"
READERS = "readers: {r: {npy: x.npy, fields: [x]}}\n"
READS = READERS + "epoch: [{task: t, read: r, steps: [w = w + x]}]\n"
REFUSED = {
    "reads no reader": "epoch: [{task: t, steps: [w = w + 1]}]\n",
    "2 instances": READERS
    + "epoch: [{task: t, read: r, instances: 2, hogwild: true, steps: [w = w + x]}]\n",
    "has 'retry'": READERS
    + "epoch: [{task: t, read: r, retry: {max: 2}, steps: [w = w + x]}]\n",
    "reports of task 't'": READERS
    + "epoch: [{task: t, read: r, steps: [w = w + x], report: [{every: 1s, steps: [{log: a}]}]}]\n",
    "reports of the epoch": READERS
    + "epoch: {tasks: [{task: t, read: r, steps: [w = w + x]}],"
    " report: [{every: 1s, steps: [{log: a}]}]}\n",
    "a single task on one node": READERS
    + "epoch: [{task: t, read: r, steps: [w = w + x]}, {task: u, steps: [y = 1]}]\n",
    "other nodes have state": "nodes: {a: {}, b: {}}\n" + READERS
    + "init: [{task: i, node: a, steps: [w = 1.0]}, {task: j, node: b, steps: [v = 1]}]\n"
    "epoch: [{task: t, node: a, read: r, steps: [w = w + x]}]\n",
    "made from 'w'": "readers: {r: {blobs: {x: w}}}\n"
    "init: [{task: i, steps: [w = zeros(4)]}]\n"
    "epoch: [{task: t, read: r, steps: [w = w + x]}]\n",
}  # fmt: skip


def test_one_task_that_reads_one_reader_is_allowed(tmp_path):
    assert job_of(tmp_path, READS + EVERY).checkpoint.every_records == 50


def test_whole_epochs_are_saved_too(tmp_path):
    assert job_of(tmp_path, READS + EVERY).checkpoint.every_epochs == 1


def test_epochs_and_seconds_are_not_records(tmp_path):
    for often in ("5ep", "10m"):
        text = READS + f"checkpoint: {{every: {often}}}\n"
        assert job_of(tmp_path, text).checkpoint.every_records == 0


def test_that_uploads_are_of_whole_epochs_is_reported(tmp_path):
    more = "checkpoint: {every: 50 records, upload: {to: copies}}\n"
    warnings = compile_text(tmp_path, READS + more).warnings

    assert [warning.code for warning in warnings] == ["W143"]
    assert compile_text(tmp_path, READS + EVERY).warnings == ()


@pytest.mark.parametrize("why", REFUSED)
def test_others_are_refused_with_the_reason_and_the_place(tmp_path, why):
    (fault,) = faults_of(tmp_path, REFUSED[why] + EVERY)

    assert fault.code == "E190"
    assert why in fault.message
    assert fault.path == "checkpoint.every"
    assert fault.where is not None
    assert fault.where.line > 0
