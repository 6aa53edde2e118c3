"""Looking at a run between groups: values of metrics and conditions over nodes' state."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.blobs.objects import ObjectFacts
from jobrun.blobs.values import Value
from jobrun.core.errors import Fault, TaskFailedError
from jobrun.graph.conditions import Probe
from jobrun.graph.expr import NodeBlob, OutputRead
from jobrun.graph.types import OutputRef
from jobrun.runner.progress import Scalar
from jobrun.runtime.evaluate import evaluate
from jobrun.session.base import Outputs, Session


class Looker:
    """Evaluates probes against the state of a session, as it is now, and given outputs."""

    def __init__(self, session: Session, outputs: Outputs, epoch: int = 0) -> None:
        self._epoch = epoch
        self._session = session
        self._outputs = outputs

    def value(self, probe: Probe) -> Value:
        """The probe's value, reduced over its nodes.

        Raises:
            TaskFailedError: It cannot be evaluated.
        """
        try:
            parts = [evaluate(part, self._read, epoch=self._epoch) for part in probe.parts]
            return _reduced(parts, probe.reduce)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise TaskFailedError(
                _fault("E366", f"'{probe.text}' cannot be evaluated: {error}", probe)
            ) from error

    def holds(self, probe: Probe) -> bool:
        """The probe's value, which must be a bool.

        Raises:
            TaskFailedError: It is something else.
        """
        value = self.value(probe)
        if isinstance(value, np.ndarray) and value.shape == ():
            value = value[()]
        if not isinstance(value, bool | np.bool_):
            message = f"'{probe.text}' must be true or false, and is {_shown(value)}"
            mend = "write a comparison; any(…) and all(…) make one bool of many"
            raise TaskFailedError(_fault("E366", message, probe, mend))
        return bool(value)

    def scalar(self, name: str, probe: Probe) -> Scalar:
        """The probe's value as one Python number, bool or text: a metric.

        Raises:
            TaskFailedError: It is something else.
        """
        value = self.value(probe)
        if isinstance(value, np.generic | np.ndarray) and value.size == 1:
            value = value.item()
        if not isinstance(value, bool | int | float | str):
            message = f"metric '{name}' must be one number, and is {_shown(value)}"
            mend = "reduce it, for example with mean(…) or max(…)"
            raise TaskFailedError(_fault("E367", message, probe, mend))
        return value

    def _read(self, leaf: NodeBlob | OutputRead) -> Value:
        if isinstance(leaf, NodeBlob):
            return self._session.read(leaf.node, (leaf.name,))[leaf.name]
        return self._outputs[OutputRef(leaf.task, leaf.node, leaf.output)]


def _reduced(parts: list[Any], reduce: str) -> Any:
    match reduce:
        case "max":
            return np.max(parts, axis=0)
        case "min":
            return np.min(parts, axis=0)
        case "mean":
            return np.mean(parts, axis=0)
        case "sum":
            return np.sum(parts, axis=0)
        case "any":
            return any(bool(part) for part in parts)
        case "all":
            return all(bool(part) for part in parts)
        case _:
            return parts[0]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, ObjectFacts):
        return f"an object of class {value.class_name}"
    return f"{value!r}"


def _fault(code: str, message: str, probe: Probe, mend: str = "") -> Fault:
    mend = mend or "see what its blobs hold: jobrun inspect-checkpoint RUN"
    return Fault(code, message, mend, probe.origin, probe.path)
