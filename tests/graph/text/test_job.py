"""A job as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobrun.core.errors import Origin
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import NodeBlob
from jobrun.graph.text.job import render_job, render_probe, render_stop
from jobrun.graph.types import Cluster, Job, Node, RemoteNet, Retry, SetupNets, Task, TaskGroup
from jobrun.testing.graphs import log

PROBE = Probe("w over n", (NodeBlob("n0", "w"), NodeBlob("n1", "w")), "max")


def _job(**more):
    groups = {name: TaskGroup(name) for name in ("init", "epoch", "download", "exit")}
    return Job("j", Cluster((Node("n0"),)), **{**groups, **more})


def test_an_empty_job_has_a_few_lines():
    assert render_job(_job()) == ("job j\nseed 0\nblas_threads 1\nnode n0\ncheckpoint default\n")


def test_places_in_files_are_left_out():
    here, there = (
        _job(epoch=TaskGroup("epoch", (Task("t", "n0", (), origin=Origin("a", line, 1)),)))
        for line in (3, 4)
    )

    assert here == there
    assert render_job(here) == render_job(there)


def test_no_checkpoint_is_said():
    assert "checkpoint none" in render_job(_job(checkpoint=CheckpointPolicy(enabled=False)))


def test_a_probe_over_nodes_names_each():
    assert render_probe(PROBE) == "max of n0.w, n1.w"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (StopAfterEpochs(3), "after 3 epochs"),
        (StopWhen(PROBE), "when max of n0.w, n1.w"),
        (StopAfterTime(90.0), "after 90 s"),
        (StopWithoutImprovement("m", 5, "max", 0.1),
         "when m has no better max for 5 epochs, by 0.1"),
        (Endless(), "never"),
    ],
)  # fmt: skip
def test_a_stop_condition_is_a_few_words(condition, text):
    assert render_stop(condition) == text


def test_limits_hosts_and_remote_nets_are_part_of_the_graph():
    job = replace(
        _job(
            epoch=TaskGroup(
                "epoch",
                (Task("t", "n0", (), instances=2, timeout_s=5.0, retry=Retry(2, 1.0)),),
                remote=(
                    RemoteNet(
                        "f",
                        "n0",
                        (log("hi"),),
                        setup=(SetupNets((log("in"),), name="s"),),
                        path="epoch/remote[0]",
                    ),
                ),
            )
        ),
        cluster=Cluster((Node("n0", host="there", resources=(("gpu", 1.0),)),)),
    )

    assert render_job(job) == (
        "job j\nseed 0\nblas_threads 1\nnode n0\n"
        "group epoch private\n"
        "  task n0/t; instances 2\n"
        "  remote n0/f epoch/remote[0]\n"
        "    s.init\n"
        "      log in\n"
        "    log hi\n"
        "place of n0: host there; gpu 1\n"
        "limits of n0/t: at most 5 s; 2 retries after 1 s\n"
        "checkpoint default\n"
    )


def test_what_a_nodes_steps_can_read_of_it_is_part_of_the_graph():
    nodes = Cluster((Node("t_0", "t", 0, 2), Node("t_1", "t", 1, 2)))
    lines = render_job(replace(_job(), cluster=nodes)).splitlines()

    assert [line for line in lines if line.startswith("node")] == [
        "node t_0; 0 of 2 t",
        "node t_1; 1 of 2 t",
    ]


def test_where_epochs_are_stands_apart_from_when_they_are_saved():
    policy = CheckpointPolicy(directory="there", nodes=("n0",), every_epochs=5)
    lines = render_job(replace(_job(), checkpoint=policy)).splitlines()

    assert lines[-3:] == ["saves n0", "saves into there", "checkpoint every_epochs=5"]
