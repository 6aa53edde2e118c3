"""What type checkers must make of ``import jobrun``. Read by mypy, never run."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import jobrun
from jobrun.api import Prepared
from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.expressions import Expr
from jobrun.graph.group_transforms import remap_nodes, to_task
from jobrun.graph.query import used_nodes
from jobrun.graph.steps import Loop, Step
from jobrun.runner.options import RunResult
from jobrun.spec.load import LoadedSpec
from jobrun.tools.inspection import Inspection
from jobrun.tools.runs.status import Status
from jobrun.tools.stored_run import StoredRuns

assert_type(jobrun.__version__, str)
assert_type(jobrun.load("job.yaml", overrides=["params.k=3"]), LoadedSpec)
assert_type(jobrun.prepare("job.yaml"), Prepared)
assert_type(jobrun.prepare("job.yaml").job, jobrun.Job)
assert_type(jobrun.expression("x + 1"), Expr)
assert_type(jobrun.steps("x = 1", Loop(None, jobrun.steps("x += 1"))), tuple[Step, ...])

task = jobrun.Task("add", "local", jobrun.steps("x = 1"))
group = jobrun.TaskGroup("epoch", (task,))
job = jobrun.Job(
    "count",
    jobrun.Cluster((jobrun.Node("local"),)),
    init=jobrun.TaskGroup("init"),
    epoch=group,
    stop=(jobrun.StopAfterEpochs(3),),
)
options = jobrun.RunOptions(run_dir=Path("runs"), max_epochs=2)
assert_type(jobrun.run(job, options, resume="auto"), RunResult)
assert_type(jobrun.resume("runs/count/latest", job), RunResult)
assert_type(jobrun.inspect("latest@3", "runs"), Inspection)
assert_type(jobrun.runs("runs"), StoredRuns)
assert_type(jobrun.runs()["latest"].status(), Status)
assert_type(jobrun.runs()[0].logs("step"), list[str])

assert_type(used_nodes(group), tuple[str, ...])
assert_type(remap_nodes(group, {"local": "other"}), jobrun.TaskGroup)
assert_type(to_task(group), jobrun.Task)

# Each of these must be an error: an ignore that is not needed is one.
jobrun.run(job, resume="perhaps")  # type: ignore[arg-type]
jobrun.steps(1)  # type: ignore[arg-type]
jobrun.nothing()  # type: ignore[attr-defined]

# Codes are checked: were any text allowed, mypy would report the comment as unused.
EnvironmentFaultError.of("E999", "no such code")  # type: ignore[arg-type]
