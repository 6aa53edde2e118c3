"""jobrun: long iterative numeric jobs from a YAML spec, killed anywhere, resumed bit for bit.

What the command line does, from Python::

    prepared = jobrun.prepare("specs/digits-kmeans.yaml")
    result = jobrun.run(prepared, jobrun.RunOptions(max_epochs=3))
    result = jobrun.resume(result.run_path)
    other = jobrun.fork(result.run_path, "specs/other.yaml")
    print(jobrun.inspect(result.run_path).epoch)

A job may also be built here, of plain values. Nothing is registered anywhere; ``prepare``
compiles a spec, and derives for such a job what a spec would have had derived:

>>> import jobrun
>>> start = jobrun.Task("start", "local", jobrun.steps("total = 0"))
>>> add = jobrun.Task("add", "local", jobrun.steps("total += epoch"))
>>> job = jobrun.Job(
...     "count",
...     jobrun.Cluster((jobrun.Node("local"),)),
...     init=jobrun.TaskGroup("init", (start,)),
...     epoch=jobrun.TaskGroup("epoch", (add,)),
...     stop=(jobrun.StopAfterEpochs(3),),
... )
>>> jobrun.prepare(job).job.state
(('local', ('total',)),)

What runs have left is read from their files::

    for run in jobrun.runs("runs"):
        print(run.name, run.status().status, run.params, run.metrics()["loss"][-1:])
    weights = jobrun.runs()["latest"].blobs()["weights"]  # the newest checkpoint's, verified

Further kinds of steps (``Loop``, ``If``, ``CallPython`` …) are in ``jobrun.graph.steps``, further
stop conditions in ``jobrun.graph.conditions``, and questions to a graph in ``jobrun.graph.query``,
``jobrun.graph.traversal`` and ``jobrun.graph.group_transforms``.
"""

from __future__ import annotations

from jobrun.version import __version__

# Known to type checkers by its name. Importing typing would take as long as all of --version.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobrun.api import expression, load, prepare, run, steps
    from jobrun.api import fork_from as fork
    from jobrun.api import inspect_checkpoint as inspect
    from jobrun.api import list_stored_runs as runs
    from jobrun.api import resume_from as resume
    from jobrun.graph.conditions import StopAfterEpochs
    from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
    from jobrun.runner.options import RunOptions
    from jobrun.values.adapters.registry import adapt

__all__ = [
    "Cluster", "Job", "Node", "RunOptions", "StopAfterEpochs", "Task", "TaskGroup",
    "__version__", "adapt", "expression", "fork", "inspect", "load", "prepare", "resume", "run",
    "runs", "steps",
]  # fmt: skip

# Imported when first used, so that reading the version alone loads nothing else.
_PLACES = {
    "adapt": "jobrun.values.adapters.registry:adapt",
    "expression": "jobrun.api:expression",
    "fork": "jobrun.api:fork_from",
    "inspect": "jobrun.api:inspect_checkpoint",
    "load": "jobrun.api:load",
    "prepare": "jobrun.api:prepare",
    "resume": "jobrun.api:resume_from",
    "run": "jobrun.api:run",
    "runs": "jobrun.api:list_stored_runs",
    "steps": "jobrun.api:steps",
    "RunOptions": "jobrun.runner.options:RunOptions",
    "StopAfterEpochs": "jobrun.graph.conditions:StopAfterEpochs",
    **{
        name: f"jobrun.graph.types:{name}"
        for name in ("Cluster", "Job", "Node", "Task", "TaskGroup")
    },
}


# Hidden from type checkers, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module 'jobrun' has no attribute '{name}'")
        from importlib import import_module  # noqa: PLC0415 - not to tell the version

        module, _, attribute = _PLACES[name].partition(":")
        return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return list(__all__)
