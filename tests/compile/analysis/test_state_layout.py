from __future__ import annotations

from dataclasses import replace

from jobrun.api import prepare
from jobrun.compile.plan.document import plan_json
from jobrun.compile.plan.text import plan_text
from jobrun.core.errors import SpecError
from jobrun.graph.types import StateLayout
from tests.support.compiling import fault_of, job_of

BODY = """\
nodes: {t: {count: 2}}
state: {STATE}
init: [{task: i, node: t, steps: ["U = zeros((4, 2))", V = 1.0, k = 0]}]
epoch: [{task: e, node: t, steps: [U += V]}]
"""


def _body(state):
    return BODY.replace("STATE", state)


def test_declarations_are_part_of_the_job(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}, V: replicated"))

    assert job.layouts == (
        StateLayout("U", "rows", "state.U"),
        StateLayout("V", "replicated", "state.V"),
    )


def test_a_declaration_of_what_is_no_state_is_refused_with_its_place(tmp_path):
    fault = fault_of(tmp_path, _body("U: {partition: rows}, Vv: replicated"))

    assert (fault.code, fault.path, fault.mend) == ("E044", "state.Vv", "did you mean 'V'?")
    assert fault.where is not None
    assert fault.where.line > 1


def test_a_single_value_has_no_rows(tmp_path):
    fault = fault_of(tmp_path, _body("V: {partition: rows}"))

    assert (fault.code, fault.path) == ("E045", "state.V")


def test_a_job_built_in_python_is_checked_too(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}"))
    try:
        prepare(replace(job, layouts=(StateLayout("nothing", "rows"),)))
    except SpecError as error:
        codes = [fault.code for fault in error.faults]

    assert codes == ["E044"]


def test_a_plan_says_what_another_number_of_nodes_would_mean(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}, V: replicated"))
    text = plan_text(job)

    assert "other nodes a resume may use another 'count': U by rows, V the same on all" in text
    assert "but not of nodes with k, not declared in 'state'" in text
    assert [one["layout"] for one in plan_json(job)["layouts"]] == ["rows", "replicated"]
