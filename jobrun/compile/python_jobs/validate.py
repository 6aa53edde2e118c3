"""Check a job built in Python for what a parser refuses in a spec: unknown words, bad numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from jobrun.compile.expressions.calls import check_call, check_draw
from jobrun.compile.expressions.reserved_names import find_name_refusal
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.definite_assignment import FINDER
from jobrun.core.text.names import BLOB_NAME, FILE_NAME, did_you_mean
from jobrun.graph.conditions import (
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWithoutImprovement,
)
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import BUILTINS, DTYPES, Builtin, Call, Draw, Dtype, Expr
from jobrun.graph.query import expressions, walk
from jobrun.graph.steps import RunProgram, Step
from jobrun.graph.traversal import walk_expr
from jobrun.graph.types import Report, Task
from jobrun.ops.operator_table import DRAWS, OPERATORS, find_operator


def check_file_name(name: str, what: str, place: Place, faults: Faults) -> None:
    """Validate the name of a job, a node or a task that was built in Python."""
    if not FILE_NAME.fullmatch(name):
        faults.error(
            "E196",
            f"'{name}' is not a valid name of a {what}: it becomes part of file names",
            "use letters, digits, '_', '.' and '-', at most 64, not starting with '.' or '-'",
            place,
        )


def check_task(task: Task, params: Mapping[str, object], faults: Faults) -> None:
    """Validate a task built in Python: its instances, reports, set-up, steps and outputs."""
    place = Place(task.path, task.origin)
    if task.instances < 1:
        faults.error(
            "E198", f"invalid number of instances: {task.instances}", "use 1 or more", place
        )
    for report in task.reports:
        check_report(report, Place(report.path, task.origin), params, faults)
    for nets in (*task.setup, *task.instance_setup):
        check_steps((*nets.init, *nets.exit), params, faults)
    check_steps(task.steps, params, faults)
    for output in task.outputs:
        _check_words((output.value,), Place(f"{task.path}.{output.name}", task.origin), faults)


def check_report(
    report: Report, place: Place, params: Mapping[str, object], faults: Faults
) -> None:
    """Validate the interval and the steps of a periodic ``Report`` in a job built in Python."""
    if not 0 < report.interval_s < math.inf:
        message = f"a report's interval must be longer than 0, and is {report.interval_s:g} s"
        faults.error("E163", message, "use for example 1.0 (seconds)", place)
    check_steps(report.steps, params, faults)


def check_stop(condition: StopCondition, path: str, faults: Faults) -> None:
    """Validate the numbers in a stop condition that was built in Python."""
    place = Place(path, NOWHERE)
    if isinstance(condition, StopAfterEpochs | StopWithoutImprovement):
        epochs: object = condition.epochs
        if not isinstance(epochs, int) or epochs < 1:
            message = f"invalid number of epochs: {epochs!r}"
            faults.error("E198", message, "use an integer of 1 or more", place)
    if isinstance(condition, StopAfterTime) and not 0 < condition.seconds < math.inf:
        message = f"invalid time limit of {condition.seconds:g} s"
        faults.error("E198", message, "use a number of seconds greater than 0", place)


def check_steps(steps: tuple[Step, ...], params: Mapping[str, object], faults: Faults) -> None:
    """Validate steps built in Python: no unknown words, no names that a blob cannot have."""
    for step in walk(steps):
        place = Place(step.path, step.origin)
        _check_words(expressions(step), place, faults)
        folders: tuple[str, ...] = ()
        if isinstance(step, RunProgram) and step.state_dir:
            folders = step.folders
            check_file_name(step.state_dir, "state_dir", place, faults)
        for name in FINDER.of_step(step).binds:
            if name in folders:
                continue
            # Names of a compiled net carry the place of its use before a colon.
            own = name.rpartition(":")[2]
            refused = find_name_refusal(own, params)
            if refused is not None:
                faults.error(refused.code, refused.message, refused.mend, place)
            elif not BLOB_NAME.fullmatch(own):
                faults.error(
                    "E151",
                    f"'{own}' is not a valid name of a blob",
                    "use letters, digits and '_', not starting with a digit",
                    place,
                )


def _check_words(exprs: Iterable[Expr], place: Place, faults: Faults) -> None:
    for expr in exprs:
        for part in walk_expr(expr):
            if isinstance(part, Call | Draw):
                _check_call(part, place, faults)
            elif isinstance(part, Builtin) and part.name not in BUILTINS:
                _note_unknown("word", part.name, BUILTINS, place, faults)
            elif isinstance(part, Dtype) and part.name not in DTYPES:
                _note_unknown("dtype", part.name, DTYPES, place, faults)


def _check_call(call: Call | Draw, place: Place, faults: Faults) -> None:
    """Validate a call in a job built in Python: the function exists and accepts its arguments."""
    if isinstance(call, Draw):
        draw = DRAWS.get(call.method)
        if draw is None:
            _note_unknown("method of rng", call.method, DRAWS, place, faults)
            return
        problems = check_draw(call, draw)[1]
    else:
        operator = find_operator(call.function)
        if operator is None:
            _note_unknown("function", call.function, OPERATORS, place, faults)
            return
        problems = check_call(call, operator)[1]
    for one in problems:
        faults.error(one.code, one.message, one.mend, place)


def _note_unknown(what: str, word: str, known: Iterable[str], place: Place, faults: Faults) -> None:
    faults.error("E199", f"unknown {what} '{word}'", did_you_mean(word, known), place)


def check_settings(task: Task, faults: Faults) -> None:
    """Validate the time limit and the retry of a task built in Python."""
    place = Place(task.path, task.origin)
    if not 0 <= task.timeout_s < math.inf:
        message = f"invalid time limit of {task.timeout_s:g} s"
        faults.error("E123", message, "use a number of seconds, or 0 for none", place)
    if task.retry is not None and not (
        task.retry.most >= 1 and 0 <= task.retry.backoff_s < math.inf
    ):
        message = f"invalid retry: {task.retry.most} times after {task.retry.backoff_s:g} s"
        faults.error("E123", message, "use Retry(1), or None for no retry", place)
    if task.retry is not None and task.on_error == "warn":
        faults.error(
            "E124",
            "'retry' has no effect with 'on_error: warn', which never fails the group",
            "remove one of the two",
            place,
        )
