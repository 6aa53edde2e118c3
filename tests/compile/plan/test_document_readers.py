from __future__ import annotations

import json

from jobrun.compile.plan.document import plan_json, readers_json
from jobrun.compile.plan.text import plan_text
from tests.support.compiling import job_of

_SPEC = """\
readers: {r: {npz: a.npz, fields: {x: data}, batch: 8, restart: never, shard: node}}
epoch: [{task: t, read: r, steps: [w = w + 1]}]
"""


def test_a_reader_stands_in_the_plan_as_data(tmp_path):
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
