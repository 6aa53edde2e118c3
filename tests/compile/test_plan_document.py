"""The plan as data."""

from __future__ import annotations

import json

from jobrun.compile.plan_document import SCHEMA, plan_json, readers_json
from jobrun.compile.plan_text import plan_text
from jobrun.ops.abstract_values import Known
from tests.support.compiling import compile_text, job_of
from tests.support.plan_specs import APART, SPEC


def test_it_is_json_with_a_schema(tmp_path):
    plan = plan_json(job_of(tmp_path, SPEC))

    assert plan["schema"] == SCHEMA == "jobrun.plan/1"
    assert json.loads(json.dumps(plan)) == plan


def test_a_task_on_many_nodes_is_listed_once(tmp_path):
    plan = plan_json(job_of(tmp_path, SPEC))

    (task,) = plan["groups"][1]["tasks"]
    assert task["nodes"] == ["a_0", "a_1", "a_2"]
    assert task["instances"] == 2
    assert task["reads"] == ["s", "w", "c"]
    assert task["writes"] == ["s", "x", "c"]
    assert task["workspaces"] == {"c": "node", "s": "task", "w": "node", "x": "instance"}
    assert [step["text"] for step in task["steps"]] == ["if s > 1", "count_up(c)", "loop 3"]
    assert task["steps"][0]["blocks"][1][0]["path"] == "epoch/t/steps[0].else[0]"


def test_setups_and_reports_are_listed_by_node(tmp_path):
    group = plan_json(job_of(tmp_path, SPEC))["groups"][1]

    assert [setup["nodes"] for setup in group["setup"]] == [["a_0", "a_1", "a_2"]]
    assert group["reports"][0]["nodes"] == ["a_0", "a_1", "a_2"]
    assert group["reports"][0]["every_s"] == 2.0


def test_state_has_the_sizes_that_are_known(tmp_path):
    sizes = {("a_0", "w"): Known("float64", (10, 3)), ("a_1", "w"): Known("float64", (None,))}
    plan = plan_json(job_of(tmp_path, SPEC), sizes)

    blobs = {
        (entry["node"], blob["name"]): blob for entry in plan["state"] for blob in entry["blobs"]
    }
    assert blobs["a_0", "w"] == {
        "name": "w",
        "dtype": "float64",
        "shape": [10, 3],
        "size_bytes": 240,
    }
    assert blobs["a_1", "w"]["size_bytes"] is None
    assert blobs["a_2", "w"] == {"name": "w", "dtype": None, "shape": None, "size_bytes": None}


def test_the_policy_and_the_class_are_reported(tmp_path):
    plan = plan_json(job_of(tmp_path, SPEC))

    assert plan["exact"] is True
    assert plan["not_exact_because"] == []
    assert plan["checkpoint"]["keep_best"] == {"metric": "m", "mode": "min", "n": 1}
    assert plan_json(job_of(tmp_path, "checkpoint: none"))["checkpoint"] == {"enabled": False}


def test_reasons_come_with_their_places(tmp_path):
    plan = plan_json(job_of(tmp_path, "epoch: [{task: t, hogwild: true, steps: [w = 1.0]}]"))

    assert plan["exact"] is False
    assert plan["not_exact_because"][0]["path"] == "epoch/t"


def test_limits_hosts_and_remote_nets_are_reported(tmp_path):
    plan = plan_json(compile_text(tmp_path, APART).job)

    (node,) = plan["nodes"]
    assert (node["host"], node["resources"]) == ("there", {"gpu": 1.0})
    group = plan["groups"][1]
    assert [(task["timeout_s"], task["retry"], task["on_error"]) for task in group["tasks"]] == [
        (3.0, {"max": 2, "backoff_s": 1.0}, "fail"),
        (None, None, "warn"),
    ]
    (net,) = group["remote"]
    assert (net["net"], net["nodes"], net["path"]) == ("f", ["a"], "epoch/remote[0]")
    assert [step["text"] for step in net["steps"]] == ["y = w"]
    assert json.loads(json.dumps(plan)) == plan


_SPEC = """\
readers: {r: {npz: a.npz, fields: {x: data}, batch: 8, restart: never, shard: node}}
epoch: [{task: t, read: r, steps: [w = w + 1]}]
stop: [data_finished: r]
"""


def test_a_reader_is_in_the_plan_as_data(tmp_path):
    job = job_of(tmp_path, _SPEC)
    (reader,) = readers_json(job)

    assert reader["fields"] == {"x": "data"}
    assert (reader["batch"], reader["limit"], reader["shard"]) == (8, None, "node")
    assert reader["position"] == "readers/r"
    assert plan_json(job)["readers"] == [reader]
    json.dumps(reader)


def test_the_plan_says_how_rows_are_divided(tmp_path):
    text = plan_text(job_of(tmp_path, _SPEC))

    assert "reader      r: x = data from a.npz" in text
    assert "each node reads a part of the rows" in text
    assert "the positions of readers begin at 0 (on local)" in text


def test_a_ragged_field_is_in_the_plan_with_both_its_members(tmp_path):
    job = job_of(tmp_path, _SPEC.replace("{x: data}", "{x: {values: v, lengths: n}, n: n}"))

    assert readers_json(job)[0]["fields"] == {"x": {"values": "v", "lengths": "n"}, "n": "n"}
    assert "x = v cut by n, n from a.npz" in plan_text(job)
