"""What a master does grows as the number of nodes does: counted in calls, not in seconds."""

from __future__ import annotations

import sys

import pytest

from jobrun.checkpoint.task_groups import save_group
from jobrun.compile.pipeline import compile_job
from jobrun.graph.query import iter_steps, kept_names, outputs_read_later
from jobrun.runner.options import RunOptions
from jobrun.runner.start_or_resume import start_run
from jobrun.session.processes.group_run import TaskCompletions
from jobrun.session.wire.codec import WIRE_TYPES, encode
from jobrun.session.wire.partition_group import partition_group
from jobrun.spec.load import load_spec
from tests.support.fake_nodes import MADE, fake_nodes, many

NODES = (50, 100, 200)


def calls_of(work):
    """How many functions are called in this thread, built-in ones too."""
    count = 0

    def note(frame, event, inputs):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines_of(work):
    """How many lines run in this thread: also loops that call nothing."""
    count = 0

    def note(frame, event, inputs):
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def expect_linear(counts):
    """From 100 to 200 nodes twice as much is added as from 50 to 100; if quadratic, four times."""
    first, second, four = counts
    assert four - second < 2.4 * (second - first), counts


def jobs(folder, *, pulls=False):
    return [compile_job(load_spec(str(many(folder, nodes, pulls=pulls)))).job for nodes in NODES]


def divide(job):
    for group in job.groups:
        shares = partition_group(group)
        endings = TaskCompletions(shares)
        for task in group.tasks:
            if task.node in shares.awaited_nodes[task.name]:
                endings.mark_ended(task.name, task.node, {})
        for share in shares.by_node.values():
            encode(share, WIRE_TYPES)


@pytest.mark.long
def test_dividing_groups_takes_as_many_calls_more_as_there_are_nodes(tmp_path):
    first, *others = jobs(tmp_path)
    divide(first)

    expect_linear([calls_of(lambda job=job: divide(job)) for job in (first, *others)])


def shares_of_all(job):
    for group in job.groups:
        partition_group(group)


@pytest.mark.long
@pytest.mark.parametrize(
    "work", [kept_names, outputs_read_later, lambda job: list(iter_steps(job))]
)
def test_looking_through_a_job_takes_as_many_calls_more_as_there_are_nodes(tmp_path, work):
    # Each node names all others, and still they are not looked at one by one.
    first, *others = jobs(tmp_path, pulls=True)
    work(first)

    expect_linear([calls_of(lambda job=job: work(job)) for job in (first, *others)])


@pytest.mark.parametrize("work", [kept_names, lambda job: save_group(job, "r"), shares_of_all])
def test_what_is_made_for_each_node_takes_as_many_lines_more_as_there_are_nodes(tmp_path, work):
    first, *others = jobs(tmp_path)
    work(first)

    expect_linear([lines_of(lambda job=job: work(job)) for job in (first, *others)])


@pytest.mark.long
def test_compiling_takes_as_many_calls_more_as_there_are_nodes(tmp_path):
    specs = [load_spec(str(many(tmp_path, nodes, pulls=True))) for nodes in NODES]
    compile_job(specs[0])

    expect_linear([calls_of(lambda spec=spec: compile_job(spec)) for spec in specs])


@pytest.mark.long
def test_a_run_takes_as_many_calls_and_messages_more_as_there_are_nodes(tmp_path):
    calls, messages = [], []
    with fake_nodes():
        for nodes in (NODES[0], *NODES):
            loaded = load_spec(str(many(tmp_path, nodes)))
            job = compile_job(loaded).job
            options = RunOptions(run_dir=tmp_path / "runs", session="fake")
            calls.append(calls_of(lambda: start_run(loaded, job, options, lambda _: None)))  # noqa: B023
            messages.append(MADE.pop().messages)

    expect_linear(calls[1:])
    expect_linear(messages[1:])
