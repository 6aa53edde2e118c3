"""A run that goes on with another number of nodes: the bits, what is told, and what is recorded."""

from __future__ import annotations

import json

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.compile.pipeline import compile_job
from jobrun.core.events import Noted
from jobrun.runner.fork import Fork, fork_run
from jobrun.runner.options import RunOptions
from jobrun.runner.resume.resize import (
    ResizedFamily,
    ResizePlan,
    adapt_progress,
    refuse_mid_epoch,
)
from jobrun.runner.saved_progress import from_json
from jobrun.spec.load import load_spec
from tests.support.elastic_job import ROWS, SPEC, Elastic

CONSTANT = SPEC.replace(
    "  - {task: one",
    '  - {task: data, node: t, rebuild: true, steps: ["X = WHAT"]}\n  - {task: one',
)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    job = Elastic(tmp_path_factory.mktemp("unbroken"))
    job.run(2)
    return job


@pytest.mark.parametrize(
    "counts",
    [(2, 1), (2, 4), (4, 3)]
    + [pytest.param(more, marks=pytest.mark.long) for more in ((3, 5, 2), (1, 3), (2, 13))],
)
def test_rows_are_put_together_and_divided_by_the_rule_of_shares(tmp_path, unbroken, counts):
    job = Elastic(tmp_path)
    for count in counts[:-1]:
        job.run(count, max_epochs=1)
    job.run(counts[-1])
    shares = [len(share) for share in job.saved(5, "U")]
    last = counts[-1]

    assert shares == [(k + 1) * ROWS // last - k * ROWS // last for k in range(last)]
    assert job.whole(5) == unbroken.whole(5)


def test_replicated_state_is_copied_to_new_nodes(tmp_path, unbroken):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=3)
    job.run(4)

    assert job.saved(5, "V") == unbroken.saved(5, "V")[:1] * 4


def test_nodes_of_other_names_keep_their_state(tmp_path):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=3)
    job.run(3)

    assert job.saved(5, "n", "head") == [5]


def test_a_name_without_a_count_is_a_family_of_one(tmp_path, unbroken):
    job = Elastic(tmp_path, SPEC.replace("{count: 2}", "{}"))
    job.run(1, max_epochs=2)
    job.text = SPEC
    job.run(3)

    assert job.whole(5) == unbroken.whole(5)


def test_resize_is_noted_and_recorded(tmp_path):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=2)
    job.run(4, max_epochs=1)
    job.run(4)
    texts = [event.text for event in job.events if isinstance(event, Noted)]

    assert "changed (declared safe): nodes.t.count: was 2, is 4" in texts
    assert any(
        "2 before, 4 now; U redistributed by rows, V the same on all" in text for text in texts
    )
    assert json.loads((job.newest.path / "run.json").read_text())["resized"] == [
        {
            "epoch": 2,
            "nodes": "t",
            "before": 2,
            "now": 4,
            "state": {"U": "rows", "V": "replicated"},
        }
    ]


def test_node_count_can_be_removed_and_restored(tmp_path, unbroken):
    job = Elastic(tmp_path)
    for count in (2, 3, 2):
        job.run(count, max_epochs=1)
    job.run(2)

    assert [resize["now"] for resize in job.newest.record.resized] == [3, 2]
    assert job.whole(5) == unbroken.whole(5)


def test_resize_can_start_from_an_older_epoch(tmp_path, unbroken):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=4)
    job.run(3, epoch=1)

    assert job.whole(5) == unbroken.whole(5)


def test_declaring_state_is_no_change_of_meaning(tmp_path, unbroken):
    job = Elastic(tmp_path, SPEC.replace("state: {U: {partition: rows}, V: replicated}\n", ""))
    job.run(2, max_epochs=2)
    job.text = SPEC
    job.run(4)

    assert job.whole(5) == unbroken.whole(5)


@pytest.mark.parametrize(
    "constant", ["arange(4.0)", "arange(12.0)[node.index * 12 // node.count:12]"]
)
def test_equal_constants_must_stay_equal_but_parts_may_change(tmp_path, constant):
    job = Elastic(tmp_path, CONSTANT.replace("WHAT", constant))
    job.run(2, max_epochs=2)
    job.run(3)

    assert job.newest.record.status == "finished"


def test_a_constant_that_was_the_same_everywhere_and_is_another_now_is_refused(tmp_path):
    job = Elastic(tmp_path, CONSTANT.replace("WHAT", "arange(4.0) * node.count"))
    job.run(2, max_epochs=2)
    error = job.refused(3)

    assert (error.exit_code, error.faults[0].code) == (5, "E371")


def test_a_constant_that_is_declared_to_be_divided_is_not_compared(tmp_path):
    text = CONSTANT.replace("WHAT", "zeros(12 // node.count)")
    job = Elastic(tmp_path, text.replace("V: replicated", "V: replicated, X: {partition: rows}"))
    job.run(2, max_epochs=2)
    job.run(3)

    assert job.newest.record.status == "finished"


def test_shares_that_the_spec_would_not_make_are_refused(tmp_path):
    text = SPEC.replace("- V = 0.5", "- V = 0.5\n      - U = zeros((6, 3))")
    job = Elastic(tmp_path, text)
    job.run(2, max_epochs=1)
    fault = job.refused(3).faults[0]

    assert fault.code == "E325"
    assert "float64 4 x 3 in the checkpoint of epoch 1, and float64 6 x 3" in fault.message


def test_a_fork_may_have_another_number_of_nodes(tmp_path, unbroken):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=2)
    loaded = load_spec(job.write(4))
    fork_run(Fork(job.newest), loaded, RunOptions(run_dir=tmp_path / "runs"))

    assert len(job.saved(5, "U")) == 4
    assert job.whole(5) == unbroken.whole(5)


def test_mid_epoch_resume_cannot_resize():
    family = ResizedFamily("t", ("t_0",), ("t_0", "t_1"), (("U", "rows"),))
    plan = refuse_mid_epoch(ResizePlan((family,)), 7)

    assert plan.families == ()
    assert plan.faults["t"][0].mend.startswith("continue from the whole epoch before: --epoch 6")


def test_outputs_of_nodes_that_are_gone_are_dropped(tmp_path):
    job = Elastic(tmp_path, SPEC.replace("V = V * 0.9]}", "V = V * 0.9], outputs: [V]}"))
    job.text += "exit: [{task: last, node: t, steps: [y = step.V]}]\n"
    job.run(2, max_epochs=1)
    store = DirectoryStore(str(job.newest.path / "checkpoints"))
    outputs = {ref.node for ref in _progress(store).outputs}
    compiled = compile_job(load_spec(job.write(1))).job
    remaining = adapt_progress(_progress(store), compiled, ()).outputs

    assert outputs == {"t_0", "t_1"}
    assert {ref.node for ref in remaining} == {"t_0"}


def _progress(store):
    return from_json(store.manifest(1).runner)


WITH_OUTPUT = (
    SPEC.replace("epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n")
    + "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
)


def _fault(folder, text, count=3, **options):
    job = Elastic(folder, text)
    job.run(2, max_epochs=1)
    error = job.refused(count, **options)
    return error, error.faults[0]


def test_state_that_is_not_declared_is_refused_with_the_place_that_makes_it(tmp_path):
    error, fault = _fault(tmp_path, SPEC.replace(", V: replicated", ""))

    assert error.exit_code == 5
    assert (fault.code, fault.path) == ("E387", "init/all/steps[2]")
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (12, 9)
    assert "'V' of t_0, t_1 is declared neither" in fault.message
    assert "state: {V: replicated}" in fault.mend


def test_each_blob_that_is_not_declared_is_named(tmp_path):
    error, _ = _fault(tmp_path, SPEC.replace("state: {U: {partition: rows}, V: replicated}", ""))

    assert [fault.path for fault in error.faults] == ["init/all/steps[1]", "init/all/steps[2]"]


def test_replicas_that_differ_are_refused_with_the_first_difference(tmp_path):
    error, fault = _fault(tmp_path, SPEC.replace("V = V * 0.9", "V = V + node.index"))

    assert (error.exit_code, fault.code, fault.path) == (5, "E388", "state.V")
    assert "0.5 on t_0, 1.5 on t_1" in fault.message


def test_rows_of_two_shapes_do_not_fit_together(tmp_path):
    text = SPEC.replace("(rows, 3)) / 7", "(rows, 3))[:, :node.index + 1] / 7")
    _, fault = _fault(tmp_path, text)

    assert (fault.code, fault.path) == ("E387", "state.U")
    assert "do not fit together" in fault.message


def test_single_value_is_not_divided(tmp_path):
    (tmp_path / "mine.py").write_text("def one():\n    return 2.0\n")
    text = SPEC.replace("V: replicated", "V: {partition: rows}")
    text = text.replace("- V = 0.5", "- {call: 'mine:one', out: V}").replace("V = V * 0.9", "k = V")
    _, fault = _fault(tmp_path, text)

    assert "is no array with rows" in fault.message


def test_an_output_that_a_new_node_has_not_given_is_refused(tmp_path):
    text = SPEC.replace(
        "epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n"
    )
    text += "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
    error, fault = _fault(tmp_path, WITH_OUTPUT)

    assert error.exit_code == 5
    assert "the output 'o.x' is read later, and t_2 has not given one yet" in fault.message


def test_fewer_nodes_need_no_output_of_those_that_are_gone(tmp_path):
    text = SPEC.replace(
        "epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n"
    )
    text += "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
    job = Elastic(tmp_path, text)
    job.run(2, max_epochs=1)
    job.run(1)

    assert job.newest.record.status == "finished"


def test_a_blob_that_the_epoch_lacks_is_refused(tmp_path):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=1)
    job.text = SPEC.replace("- V = 0.5", "- V = 0.5\n      - Z = 1")
    error = job.refused(3, accept=("init",))

    assert "E307" in [fault.code for fault in error.faults]


@pytest.mark.parametrize(("layout", "words"), [("rows", "redistributed"), ("replicated", "same")])
def test_family_describes_its_change(layout, words):
    text = str(ResizedFamily("t", ("t_0", "t_1"), ("t_0",), (("U", layout),)))

    assert text.startswith("nodes of 't': 2 before, 1 now; U")
    assert words in text
