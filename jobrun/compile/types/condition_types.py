"""Check the types of conditions and metrics: bools, and single numbers."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.faults import Place
from jobrun.compile.types.arithmetic import require_truth_value
from jobrun.compile.types.expressions import infer_expression
from jobrun.compile.types.type_faults import TypeFaults
from jobrun.graph.conditions import Probe, StopWhen
from jobrun.graph.types import Job
from jobrun.ops.abstract_values import NONE, TEXT, Known, items_in, kind_of
from jobrun.ops.arguments import KINDS, MisfitError, shape_text


def check_probes(job: Job, names: Mapping[str, Known], faults: TypeFaults) -> None:
    """Check that the dtypes and shapes of conditions and metrics are as they must be.

    ``expect`` is left out: the tasks of exit may change what it reads.

    Args:
        job: The checked job.
        names: What is known of blobs and outputs when the runner reads them, under
            ``blob_key`` and ``output_key``.
        faults: Collects what is wrong.
    """
    conditions = [one.probe for one in job.stop if isinstance(one, StopWhen)]
    for probe in (*conditions, *job.fail_if):
        _check_probe(probe, names, faults, f"'{probe.text}'", is_condition=True)
    for name, probe in job.metrics:
        _check_probe(probe, names, faults, f"metric '{name}'", is_condition=False)


def _check_probe(
    probe: Probe, names: Mapping[str, Known], faults: TypeFaults, what: str, *, is_condition: bool
) -> None:
    for part in probe.parts:
        known = infer_expression(
            part, {}, lambda one: faults.add_misfit(one, probe.path, probe.origin), names
        )
        try:
            if probe.reduce in ("any", "all"):
                require_truth_value(known)
            elif is_condition:
                _require_bool(known)
            else:
                _require_scalar(known)
        except MisfitError as error:
            faults.add(error, f"{what}: ", Place(probe.path, probe.origin))
            # One fault is enough: the same is wrong on all nodes.
            return


def _require_bool(known: Known) -> None:
    mend = "write a comparison; any(…) and all(…) reduce an array of bools"
    if known.sequence or known.shape:
        shown = f"a {known.sequence}" if known.sequence else _array_text(known)
        raise MisfitError(KINDS, f"a condition must be true or false, but this is {shown}", mend)
    if known.dtype in (TEXT, NONE) or kind_of(known.dtype) not in ("", "b"):
        message = f"a condition must be true or false, but this is {known.dtype}"
        raise MisfitError(KINDS, message, mend)


def _require_scalar(known: Known) -> None:
    mend = "reduce it, for example with mean(…) or max(…)"
    if known.sequence:
        message = f"a metric must be one number, but this is a {known.sequence}"
        raise MisfitError(KINDS, message, mend)
    if known.shape is not None and items_in(known.shape) not in (1, None):
        raise MisfitError(
            KINDS, f"a metric must be one number, but this is {_array_text(known)}", mend
        )
    if known.dtype == NONE or kind_of(known.dtype) == "c":
        message = f"a metric must be one real number, but this is {known.dtype}"
        raise MisfitError(KINDS, message, "take abs(x), real(x) or imag(x)")


def _array_text(known: Known) -> str:
    return f"an array of shape {shape_text(known.shape or ())}"
