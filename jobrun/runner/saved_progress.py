"""Define the progress of a run at an epoch boundary, which a manifest keeps besides blobs.

Everything that influences when a run stops is here or in a blob, so that a resumed run
stops exactly where an unbroken one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from jobrun.core.errors import CheckpointError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import OutputRef
from jobrun.runner.json_values import decode_json, encode_json

Scalar = float | int | bool | str


@dataclass(frozen=True, slots=True)
class Patience:
    """The state of one ``no_improvement`` condition.

    Attributes:
        condition: Which condition it is, in words; a changed one starts again.
        best: The best value so far; None before the first.
        waited_epochs: Epochs since then.
    """

    condition: str
    best: float | None = None
    waited_epochs: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after an epoch.

    Attributes:
        epoch: The last that ran; 0 after init.
        elapsed_s: What all invocations computed, up to the end of this epoch.
        epoch_s: How long this epoch took.
        patience: One per ``no_improvement``.
        metrics: The job's metrics after this epoch, by name.
        scores: Epoch and value of the metric that ``keep.best`` names.
        outputs: What tasks of init and of this epoch gave out, if it is read later.
        stopping: Why the run stops after this epoch, in words; empty when it continues.
        constants: ``sha256:…`` of each constant, by ``node.name``.
        failed_saves: How many saves failed and were passed over (``on_error: warn``).
    """

    epoch: int = 0
    elapsed_s: float = 0.0
    epoch_s: float = 0.0
    patience: tuple[Patience, ...] = ()
    metrics: tuple[tuple[str, Scalar], ...] = ()
    scores: tuple[tuple[int, float], ...] = ()
    outputs: Mapping[OutputRef, Any] = field(default_factory=dict)
    stopping: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    failed_saves: int = 0


def to_json(progress: Progress) -> dict[str, Any]:
    """Convert a run's progress to JSON, which a manifest saves under its key ``runner``.

    Raises:
        TaskFailedError: An output cannot be stored; see ``encode_json``.
    """
    return {
        "epoch": progress.epoch,
        "elapsed_s": progress.elapsed_s,
        "epoch_s": progress.epoch_s,
        "patience": [
            [one.condition, encode_json(one.best, one.condition), one.waited_epochs]
            for one in progress.patience
        ],
        "metrics": [[name, encode_json(value, name)] for name, value in progress.metrics],
        "scores": [[epoch, encode_json(value, "keep.best")] for epoch, value in progress.scores],
        "outputs": [
            [ref.task, ref.node, ref.output, encode_json(value, f"output {ref}")]
            for ref, value in sorted(progress.outputs.items(), key=_ref_key)
        ],
        "stopping": list(progress.stopping),
        "constants": dict(sorted(progress.constants.items())),
        "failed_saves": progress.failed_saves,
    }


def from_json(form: Mapping[str, Any]) -> Progress:
    """Rebuild a run's progress (epoch, metrics, patience) from the JSON that a manifest saved.

    Raises:
        CheckpointError: The form is of another make.
    """
    try:
        return Progress(
            epoch=form["epoch"],
            elapsed_s=form["elapsed_s"],
            epoch_s=form["epoch_s"],
            patience=tuple(
                Patience(condition, decode_json(best), waited)
                for condition, best, waited in form["patience"]
            ),
            metrics=tuple((name, decode_json(value)) for name, value in form["metrics"]),
            scores=tuple((epoch, decode_json(value)) for epoch, value in form["scores"]),
            outputs={
                OutputRef(task, node, output): decode_json(value)
                for task, node, output, value in form["outputs"]
            },
            stopping=tuple(form["stopping"]),
            constants=dict(form["constants"]),
            failed_saves=form["failed_saves"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError.of(
            "E358",
            f"the manifest has no valid progress of the run ({error!r})",
            "use the jobrun that wrote it, or another epoch with --epoch N",
        ) from error


def _ref_key(item: tuple[OutputRef, Any]) -> tuple[str, str, str]:
    ref = item[0]
    return (ref.task, ref.node, ref.output)
