from __future__ import annotations

import json
from dataclasses import replace

from jobrun.runner.start_or_resume import run_with_policy
from jobrun.tools.profile.profiler import SCHEMA, Profiler
from tests.support.resumable_job import Place


def _profiled(place, **options):
    profiler = Profiler()
    place.events.clear()
    chosen = replace(place.options(**options), profiler=profiler)

    def listen(event):
        profiler.listen(event)

    result = run_with_policy(*place.load(), chosen, listen, "auto")
    return profiler, result


def test_a_run_leaves_a_table_and_a_trace_in_its_directory(tmp_path):
    place = Place(tmp_path / "walk")

    profiler, _ = _profiled(place)
    table, trace = profiler.write()

    assert table == place.run.path / "profile" / "table-1.json"
    found = json.loads(table.read_text())
    assert found["schema"] == SCHEMA
    steps = {row["path"]: row for row in found["steps"]}
    assert steps["epoch/step/steps[0]"]["calls"] == 4
    assert steps["epoch/step/steps[0]"]["label"] == "+="
    assert {row["node"] for row in found["nodes"]} == {"a", "b"}
    names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
    assert {"epoch 1", "epoch 4", "save 4", "epoch/step"} <= set(names)


def test_a_profile_of_a_resume_stands_beside_the_first(tmp_path):
    place = Place(tmp_path / "walk")

    first = _profiled(place, max_epochs=1)[0].write()
    second = _profiled(place)[0].write()

    assert [path.name for path in (*first, *second)] == [
        "table-1.json",
        "trace-1.json",
        "table-2.json",
        "trace-2.json",
    ]


def test_the_bits_are_those_of_a_run_without_it(tmp_path):
    plain, measured = Place(tmp_path / "plain"), Place(tmp_path / "measured")

    plain.start()
    _profiled(measured)

    assert measured.outcome() == plain.outcome()


def test_nothing_is_written_where_nothing_ran(tmp_path):
    profiler = Profiler()
    assert profiler.write() is None
    assert profiler.table() is None
