"""Cases about which blobs a task sees, and what a group leaves behind."""

from __future__ import annotations

from tests.support.compiling import codes_of, fault_of


def test_case_001_group_private_vs_global(stage):
    """Same: init is global, epoch is private, and a group that does not say is private."""
    job = stage("""
        init: [{task: one, steps: [a = 1]}]
        epoch: {workspace: private, tasks: [{task: two, steps: [b = 2]}]}
        exit: [{task: three, steps: [c = 3]}]
        stop: [{epochs: 1}]
    """)

    job.run("init", "epoch", "exit")

    assert job.names() == ("a",)
    assert [group.workspace for group in (job.job.init, job.job.epoch, job.job.exit)] == [
        "global",
        "private",
        "private",
    ]


def test_case_002_private_tasks_same_name(stage):
    """Same: two private tasks have an ``x`` each, unless the node has one: then it is that."""
    text = """
        init: [{task: start, steps: [SEED]}]
        epoch:
          - {task: one, steps: [x = 10, o1 = x], outputs: [o1]}
          - {task: two, needs: [one], steps: [x = 20, o2 = x], outputs: [o2]}
        stop: [{epochs: 1}]
    """
    apart, shared = stage(text.replace("SEED", "other = 0")), stage(text.replace("SEED", "x = 0"))

    assert apart.run("init", "epoch") == {"one.o1": 10, "two.o2": 20}
    assert apart.names() == ("other",)
    assert shared.run("init", "epoch") == {"one.o1": 10, "two.o2": 20}
    assert shared.names() == ("x",)
    assert shared.value("x") == 20


_PRODUCER = """
init: [{task: start, steps: [other = 0]}]
epoch: [{task: producer, steps: [y = 7, z = 8], outputs: [y]}]
stop: [{epochs: 1}]
"""


def test_case_004_output_blob_lives_in_session(stage):
    """By rule 6: an output is a snapshot that later groups read; the blob itself does not stay."""
    job = stage(
        _PRODUCER + "exit: [{task: reader, steps: [more = producer.y + 1], outputs: [more]}]\n"
    )

    assert job.run("init", "epoch", "exit") == {"producer.y": 7, "reader.more": 8}
    assert job.names() == ("other",)


def test_case_004_output_blob_lives_in_session_and_what_is_no_output_cannot_be_read(tmp_path):
    """Same: reading ``z`` in a later group is an error, here before anything runs."""
    fault = fault_of(tmp_path, _PRODUCER + "exit: [{task: reader, steps: [more = z + 1]}]\n")

    assert "'z'" in fault.message


def test_case_005_global_group_keeps_everything(stage):
    """By design: each node has its own global workspace, and nothing unnamed is in it."""
    job = stage("""
        nodes: {n1: {}, n2: {}}
        init:
          - {task: one, node: n1, steps: [q = 2, p = q - 1]}
          - {task: two, node: n2, steps: [r = 3]}
        epoch: [{task: idle, node: n1, steps: [x = 1]}]
        stop: [{epochs: 1}]
    """)

    job.run("init")

    assert (job.names("n1"), job.names("n2")) == (("p", "q"), ("r",))
    assert (job.value("p", "n1"), job.value("r", "n2")) == (1, 3)


def test_case_007_session_run_type_argument(stage):
    """Same: a group that does not say is private, one that says global leaves its blobs."""
    text = """
        init: [{task: start, steps: [w = 1]}]
        epoch: {WHICH tasks: [{task: one, steps: [u = 1]}]}
        stop: [{epochs: 1}]
    """
    private, opened = (
        stage(text.replace("WHICH", "")),
        stage(text.replace("WHICH", "workspace: global,")),
    )

    for job in (private, opened):
        job.run("init", "epoch")

    assert (private.job.epoch.workspace, private.names()) == ("private", ("w",))
    assert (opened.job.epoch.workspace, opened.names()) == ("global", ("u", "w"))


def test_case_007_session_run_type_argument_that_contradicts(tmp_path):
    """By rule 4: the kind of workspace is checked for all tasks at once, before anything runs.

    Nothing is run beside a job, so a net or a task of its own has no kind to be told.
    """
    text = "epoch: {workspace: WHOLE, tasks: [{task: one, workspace: PART, steps: [u = 1]}]}\n"
    codes = {
        (whole, part): codes_of(tmp_path, text.replace("WHOLE", whole).replace("PART", part))
        for whole in ("private", "global")
        for part in ("private", "global")
    }

    assert codes == {
        ("private", "private"): [],
        ("global", "global"): [],
        ("private", "global"): ["E167"],
        ("global", "private"): ["E167"],
    }
