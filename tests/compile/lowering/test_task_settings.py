"""Limits, retries, hosts: what the graph keeps of them, and what cannot be meant."""

from __future__ import annotations

import pytest

from jobrun import api
from jobrun.compile.faults import Faults
from jobrun.compile.lowering.groups import lower_retry
from jobrun.compile.python_jobs import check_settings
from jobrun.core.errors import SpecError
from jobrun.graph.types import Retry, Task
from jobrun.spec.models.tasks import TaskSpec
from tests.support.compiling import compile_text, fault_of, job_of, task_of

TASK = "epoch: [{{task: t, {}, steps: [x = 1]}}]"


def test_a_task_keeps_its_limit_its_retry_and_what_a_failure_means(tmp_path):
    more = "timeout: 2m, retry: {max: 3, backoff: 5s}"
    job = job_of(
        tmp_path,
        f"""\
        epoch:
          - {{task: t, {more}, steps: [x = 1]}}
          - {{task: u, on_error: warn, steps: [x = 1]}}
          - {{task: v, steps: [w = w + 1]}}
        """,
    )

    first, second, third = (task_of(job, name) for name in "tuv")
    assert (first.timeout_s, first.retry, first.on_error) == (120.0, Retry(3, 5.0), "fail")
    assert (second.timeout_s, second.retry, second.on_error) == (0.0, None, "warn")
    assert (third.timeout_s, third.retry, third.on_error) == (0.0, None, "fail")


def test_no_retry_is_none():
    spec = {"task": "t", "retry": {"max": 0, "backoff": "1s"}}

    assert lower_retry(TaskSpec.model_validate(spec)) is None
    assert lower_retry(TaskSpec(task="t")) is None


@pytest.mark.parametrize(
    ("setting", "code", "words"),
    [
        ("timeout: 0s", "E123", "longer than 0"),
        ("retry: {max: 1}, on_error: warn", "E124", "'retry' has no effect"),
    ],
)
def test_settings_of_a_task_that_cannot_be_meant(tmp_path, setting, code, words):
    fault = fault_of(tmp_path, TASK.format(setting))

    assert (fault.code, fault.path) == (code, "epoch/t")
    assert words in fault.message


def test_a_node_keeps_host_and_resources_and_is_warned_about(tmp_path):
    text = "nodes: {local: {count: 2, host: there, resources: {gpu: 1, cpu: 0.5}}}\n"
    text += "init: [{task: i, node: local, steps: [w = 1.0]}]\n"
    text += "epoch: [{task: t, node: local, steps: [w = w + 1]}]"

    compiled = compile_text(tmp_path, text)

    for node in compiled.job.cluster:
        assert (node.host, node.resources) == ("there", (("gpu", 1.0), ("cpu", 0.5)))
    assert [(fault.code, fault.path) for fault in compiled.warnings] == [
        ("W135", "nodes.local.host"),
        ("W135", "nodes.local.resources"),
    ]


@pytest.mark.parametrize(
    ("session", "codes"),
    [("threads", ["W135"]), ("processes", ["W135"]), ("ray", []), ("ray:h:6379", [])],
)
def test_on_a_cluster_host_and_resources_count(tmp_path, session, codes):
    text = "nodes: {local: {resources: {gpu: 1}}}\nepoch: [{task: t, node: local, steps: [x = 1]}]"
    compiled = compile_text(tmp_path, text)

    warnings = api.Prepared(compiled.job, compiled).warnings_in(session)

    assert [warning.code for warning in warnings] == codes


@pytest.mark.parametrize(
    ("node", "code", "path"),
    [
        ("resources: {gpu: -1}", "E123", "nodes.local.resources.gpu"),
        ("host: a, props: {host: b}", "E124", "nodes.local.props.host"),
        ("resources: {gpu: 1}, props: {gpu: 2}", "E124", "nodes.local.props.gpu"),
    ],
)
def test_settings_of_a_node_that_cannot_be_meant(tmp_path, node, code, path):
    fault = fault_of(tmp_path, f"nodes: {{local: {{{node}}}}}")

    assert (fault.code, fault.path) == (code, path)


def test_properties_that_say_the_same_are_no_conflict(tmp_path):
    text = "nodes: {local: {host: a, props: {host: a, color: red}}}"

    assert [fault.code for fault in compile_text(tmp_path, text).warnings] == ["W135"]


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"timeout_s": -1.0}, "E123"),
        ({"timeout_s": float("nan")}, "E123"),
        ({"retry": Retry(0)}, "E123"),
        ({"retry": Retry(1, -1.0)}, "E123"),
        ({"retry": Retry(1), "on_error": "warn"}, "E124"),
    ],
)
def test_a_task_built_by_hand_is_held_to_the_same(settings, code):
    faults = Faults()

    check_settings(Task("t", "n", (), path="epoch/t", **settings), faults)

    with pytest.raises(SpecError) as caught:
        faults.raise_if_any()
    assert [(fault.code, fault.path) for fault in caught.value.faults] == [(code, "epoch/t")]
