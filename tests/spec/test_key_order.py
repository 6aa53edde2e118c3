"""The order of keys."""

from __future__ import annotations

from jobrun.spec.key_order import WHOLE, Kind


def ordered(kind, *keys):
    return [keys[number] for number in kind.order(keys)]


def test_a_job_reads_from_its_name_over_init_to_its_end():
    keys = ("stop", "epoch", "x-notes", "init", "seed", "include", "name", "jobrun")

    assert ordered(WHOLE, *keys) == [
        "jobrun",
        "include",
        "name",
        "x-notes",
        "seed",
        "init",
        "epoch",
        "stop",
    ]


def test_unknown_keys_stay_behind_in_their_order():
    assert ordered(WHOLE, "zz", "stop", "aa", "jobrun") == ["jobrun", "stop", "zz", "aa"]


def test_names_of_params_are_no_keys_of_a_model():
    params = WHOLE.values(["params"])[0]

    assert ordered(params, "max", "default") == ["max", "default"]
    assert ordered(params.values(["z"])[0], "max", "default") == ["default", "max"]


def step(*keys):
    task = WHOLE.values(["epoch"])[0].item()
    return ordered(task.values(["steps"])[0].item(), *keys)


def test_a_step_is_recognised_by_its_key():
    assert step("out", "in", "op") == ["op", "in", "out"]
    assert step("axis", "in", "op", "out") == ["op", "in", "out", "axis"]
    assert step("else", "then", "if") == ["if", "then", "else"]
    assert step("message", "assert") == ["assert", "message"]


def test_keys_that_describe_a_body_come_before_it():
    assert step("steps", "as", "loop", "name") == ["loop", "as", "name", "steps"]
    task = WHOLE.values(["init"])[0].item()
    assert ordered(task, "steps", "read", "instances", "node", "task") == [
        "task",
        "node",
        "read",
        "instances",
        "steps",
    ]


def test_a_group_may_be_a_list_or_a_mapping():
    group = WHOLE.values(["epoch"])[0]

    assert ordered(group, "tasks", "workspace") == ["workspace", "tasks"]


def test_where_no_model_is_known_nothing_moves():
    assert ordered(Kind(), "b", "a") == ["b", "a"]
    assert ordered(Kind().item().values(["b"])[0], "b", "a") == ["b", "a"]
