"""Checks that conditions are bools and metrics single numbers, where known. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.faults import Place
from jobrun.compile.shape_eval import evaluate
from jobrun.compile.shape_judge import Judge
from jobrun.compile.shape_operators import check_truth
from jobrun.graph.conditions import Probe, StopWhen
from jobrun.graph.types import Job
from jobrun.ops.arguments import KINDS, MisfitError, shape_text
from jobrun.ops.known import NONE, TEXT, Known, items_in, kind_of


def judge_probes(job: Job, names: Mapping[str, Known], judge: Judge) -> None:
    """Take note of stop conditions, ``fail_if`` and metrics whose values cannot be such.

    What is expected at the end is left out: exit's tasks may make it something else.

    Args:
        job: The checked job.
        names: What is known of blobs and outputs whenever the runner looks at them, under
            ``blob_key`` and ``output_key``.
        judge: Takes note.
    """
    conditions = [one.probe for one in job.stop if isinstance(one, StopWhen)]
    for probe in (*conditions, *job.fail_if):
        _judge(probe, names, judge, f"'{probe.text}'", is_condition=True)
    for name, probe in job.metrics:
        _judge(probe, names, judge, f"metric '{name}'", is_condition=False)


def _judge(
    probe: Probe, names: Mapping[str, Known], judge: Judge, what: str, *, is_condition: bool
) -> None:
    for part in probe.parts:
        known = evaluate(part, names, lambda one: judge.note(one, probe.path, probe.origin))
        try:
            if probe.reduce in ("any", "all"):
                check_truth(known)
            elif is_condition:
                _check_bool(known)
            else:
                _check_scalar(known)
        except MisfitError as error:
            judge.tell(error, f"{what}: ", Place(probe.path, probe.origin))
            # What is wrong on one node is wrong on many.
            return


def _check_bool(known: Known) -> None:
    mend = "write a comparison; any(…) and all(…) make one bool of many"
    if known.items is not None or known.shape:
        shown = "several values" if known.items is not None else _array(known)
        raise MisfitError(KINDS, f"a condition must be true or false, and this is {shown}", mend)
    if known.dtype in (TEXT, NONE) or kind_of(known.dtype) not in ("", "b"):
        message = f"a condition must be true or false, and this is {known.dtype}"
        raise MisfitError(KINDS, message, mend)


def _check_scalar(known: Known) -> None:
    mend = "reduce it, for example with mean(…) or max(…)"
    if known.items is not None:
        raise MisfitError(KINDS, "a metric must be one number, and this is several values", mend)
    if known.shape is not None and items_in(known.shape) not in (1, None):
        raise MisfitError(KINDS, f"a metric must be one number, and this is {_array(known)}", mend)
    if known.dtype == NONE or kind_of(known.dtype) == "c":
        message = f"a metric must be one real number, and this is {known.dtype}"
        raise MisfitError(KINDS, message, "take abs(x), real(x) or imag(x)")


def _array(known: Known) -> str:
    return f"an array of shape {shape_text(known.shape or ())}"
