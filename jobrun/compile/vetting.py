"""What a parser refuses in a text, looked for in a graph built by hand: words that mean nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from jobrun.compile.calls import checked_call, checked_draw
from jobrun.compile.context import FINDER
from jobrun.compile.faults import Faults, Place
from jobrun.compile.reserved import refused_name
from jobrun.core.names import BLOB_NAME, FILE_NAME, did_you_mean
from jobrun.graph.conditions import (
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWithoutImprovement,
)
from jobrun.graph.expr import BUILTINS, DTYPES, Builtin, Call, Draw, Dtype, Expr
from jobrun.graph.query import expressions, walk
from jobrun.graph.steps import NOWHERE, RunProgram, Step
from jobrun.graph.types import Report, Task
from jobrun.graph.walk import walk_expr
from jobrun.ops.plugins import find_operator
from jobrun.ops.table import DRAWS, OPERATORS


def vet_name(name: str, what: str, place: Place, faults: Faults) -> None:
    """Note a fault if a job, a node or a task cannot have this name."""
    if not FILE_NAME.fullmatch(name):
        faults.error("E196", f"'{name}' cannot be the name of a {what}: it names files",
                     "use letters, digits, '_', '.' and '-', at most 64, and no '.' or '-' first",
                     place)  # fmt: skip


def vet_task(task: Task, params: Mapping[str, object], faults: Faults) -> None:
    """Note what is wrong with a task's numbers, and with the words in its steps and outputs."""
    place = Place(task.path, task.origin)
    if task.instances < 1:
        faults.error("E198", f"a task cannot have {task.instances} instances",
                     "give 1 or more", place)  # fmt: skip
    for report in task.reports:
        vet_report(report, Place(report.path, task.origin), params, faults)
    for nets in (*task.setup, *task.instance_setup):
        vet_steps((*nets.init, *nets.exit), params, faults)
    vet_steps(task.steps, params, faults)
    for output in task.outputs:
        _vet_words((output.value,), Place(f"{task.path}.{output.name}", task.origin), faults)


def vet_report(report: Report, place: Place, params: Mapping[str, object], faults: Faults) -> None:
    """Note what is wrong with a report's interval and its steps."""
    if not 0 < report.interval_s < math.inf:
        message = f"a report's interval must be longer than 0, and is {report.interval_s:g} s"
        faults.error("E163", message, "give for example 1.0 (seconds)", place)
    vet_steps(report.steps, params, faults)


def vet_stop(condition: StopCondition, path: str, faults: Faults) -> None:
    """Note a number with which a stop condition would never hold, or always."""
    place = Place(path, NOWHERE)
    if isinstance(condition, StopAfterEpochs | StopWithoutImprovement):
        epochs: object = condition.epochs
        if not isinstance(epochs, int) or epochs < 1:
            message = f"a run cannot end after {epochs!r} epochs"
            faults.error("E198", message, "give a whole number, 1 or more", place)
    if isinstance(condition, StopAfterTime) and not 0 < condition.seconds < math.inf:
        message = f"a run cannot end after {condition.seconds:g} s"
        faults.error("E198", message, "give seconds, more than 0", place)


def vet_steps(steps: tuple[Step, ...], params: Mapping[str, object], faults: Faults) -> None:
    """Note words without a meaning, and names that no blob can have."""
    for step in walk(steps):
        place = Place(step.path, step.origin)
        _vet_words(expressions(step), place, faults)
        folders: tuple[str, ...] = ()
        if isinstance(step, RunProgram) and step.state_dir:
            folders = step.folders
            vet_name(step.state_dir, "state_dir", place, faults)
        for name in FINDER.of_step(step).binds:
            if name in folders:
                continue
            # Names of a compiled net carry the place of its use before a colon.
            own = name.rpartition(":")[2]
            refused = refused_name(own, params)
            if refused is not None:
                faults.error(refused.code, refused.message, refused.mend, place)
            elif not BLOB_NAME.fullmatch(own):
                faults.error("E151", f"'{own}' cannot be the name of a blob",
                             "use letters, digits and '_', no digit first", place)  # fmt: skip


def _vet_words(exprs: Iterable[Expr], place: Place, faults: Faults) -> None:
    for expr in exprs:
        for part in walk_expr(expr):
            if isinstance(part, Call | Draw):
                _vet_call(part, place, faults)
            elif isinstance(part, Builtin) and part.name not in BUILTINS:
                _unknown("word", part.name, BUILTINS, place, faults)
            elif isinstance(part, Dtype) and part.name not in DTYPES:
                _unknown("dtype", part.name, DTYPES, place, faults)


def _vet_call(call: Call | Draw, place: Place, faults: Faults) -> None:
    """What is called must be there, and take what it is given."""
    if isinstance(call, Draw):
        draw = DRAWS.get(call.method)
        if draw is None:
            _unknown("method of rng", call.method, DRAWS, place, faults)
            return
        problems = checked_draw(call, draw)[1]
    else:
        operator = find_operator(call.function)
        if operator is None:
            _unknown("function", call.function, OPERATORS, place, faults)
            return
        problems = checked_call(call, operator)[1]
    for one in problems:
        faults.error(one.code, one.message, one.mend, place)


def _unknown(what: str, word: str, known: Iterable[str], place: Place, faults: Faults) -> None:
    faults.error("E199", f"there is no {what} '{word}'", did_you_mean(word, known), place)
