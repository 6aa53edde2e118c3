"""Define the progress of a run at an epoch boundary, and convert it to JSON for the manifest.

Everything that influences when a run stops is here or in a blob, so that a resumed run stops
exactly where an unbroken one does. Values of metrics and outputs come back from JSON bit for bit:
kind, dtype and shape survive, a Python float stays one, an array of shape () stays an array. What
has no JSON form of its own becomes a mapping with the key ``kind``.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field

from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.core.text.big_integers import is_long
from jobrun.graph.types import OutputRef
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.container_flattening import flatten, is_tree, unflatten

Scalar = float | int | bool | str

# The most bytes of an array in a manifest.
LIMIT_BYTES = 1 << 20


class Patience(Struct, frozen=True):
    """The state of one ``no_improvement`` condition.

    Attributes:
        condition: Which condition it is, in words; a changed one starts again.
        best: The best value so far; None before the first.
        waited_epochs: Epochs since then.
    """

    condition: str
    best: float | None = None
    waited_epochs: int = 0


class Progress(Struct, frozen=True):
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
    """Convert a run's progress to a JSON dict, which each manifest contains as ``runner``.

    Raises:
        TaskFailedError: An output cannot be stored; see ``encode_json``.
    """
    return {
        "epoch": progress.epoch,
        "elapsed_s": progress.elapsed_s,
        "epoch_s": progress.epoch_s,
        "patience": [
            [
                patience.condition,
                encode_json(patience.best, patience.condition),
                patience.waited_epochs,
            ]
            for patience in progress.patience
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


def from_json(content: Mapping[str, Any]) -> Progress:
    """Rebuild a run's progress (epoch, metrics, patience) from the JSON that a manifest saved.

    Raises:
        CheckpointError: The form is of another make.
    """
    try:
        return Progress(
            epoch=content["epoch"],
            elapsed_s=content["elapsed_s"],
            epoch_s=content["epoch_s"],
            patience=tuple(
                Patience(condition, decode_json(best), waited)
                for condition, best, waited in content["patience"]
            ),
            metrics=tuple((name, decode_json(value)) for name, value in content["metrics"]),
            scores=tuple((epoch, decode_json(value)) for epoch, value in content["scores"]),
            outputs={
                OutputRef(task, node, output): decode_json(value)
                for task, node, output, value in content["outputs"]
            },
            stopping=tuple(content["stopping"]),
            constants=dict(content["constants"]),
            failed_saves=content["failed_saves"],
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


def encode_json(value: Any, subject: str) -> Any:
    """Encode a metric or output of a run's progress as JSON, so that no bit is lost.

    Args:
        value: A Python or numpy scalar, text, None, an array, or a container of these.
        subject: What it is, for the error: ``output lloyd.shift``.

    Raises:
        TaskFailedError: It is of another kind, or larger than 1 MiB.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _encode_array(value, subject)
    if isinstance(value, int):
        return {"kind": "int", "value": hex(value)} if is_long(value) else value
    if isinstance(value, float):
        # JSON has no NaN and no infinity.
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, complex):
        return {
            "kind": "complex",
            "value": [encode_json(value.real, subject), encode_json(value.imag, subject)],
        }
    if is_tree(value) and not _is_flat(value):
        try:
            parts = flatten(value)
        except UnsavableError as error:
            raise _unstorable_error(subject, f"holds {error.what}") from error
        leaves = [[list(path), encode_json(leaf, subject)] for path, leaf in parts.leaves.items()]
        return {"kind": "tree", "structure": parts.structure, "leaves": leaves}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"kind": kind, "items": [encode_json(item, subject) for item in value]}
    raise _unstorable_error(subject, f"is a {type(value).__name__}")


def decode_json(encoded: Any) -> Any:
    """Decode a metric or output of saved progress from JSON to the original value, bit for bit.

    Raises:
        ValueError: It is the form of nothing.
    """
    if not isinstance(encoded, dict):
        return encoded
    match encoded.get("kind"):
        case "int":
            return int(encoded["value"], 16)
        case "float":
            return float(encoded["value"])
        case "complex":
            real, imaginary = encoded["value"]
            return complex(decode_json(real), decode_json(imaginary))
        case "list":
            return [decode_json(item) for item in encoded["items"]]
        case "tuple":
            return tuple(decode_json(item) for item in encoded["items"])
        case "tree":
            leaves = {tuple(path): decode_json(leaf) for path, leaf in encoded["leaves"]}
            return unflatten(encoded["structure"], leaves)
        case "array" | "scalar":
            data = io.BytesIO(base64.b64decode(encoded["npy"]))
            array = np.lib.format.read_array(data, allow_pickle=False)
            return array if encoded["kind"] == "array" else array[()]
        case kind:
            raise ValueError(f"no value has the kind {kind!r}")


def _is_flat(value: Any) -> bool:
    """Return whether a list in saved progress has no list or dict in it, and no array twice."""
    if type(value) not in (list, tuple) or any(map(is_tree, value)):
        return False
    arrays = [id(part) for part in value if isinstance(part, np.ndarray)]
    return len(set(arrays)) == len(arrays)


def _encode_array(value: np.generic | np.ndarray[Any, Any], subject: str) -> dict[str, str]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _unstorable_error(subject, "holds Python objects")
    if array.nbytes > LIMIT_BYTES:
        raise _unstorable_error(subject, f"has {array.nbytes} bytes, and {LIMIT_BYTES} is the most")
    data = io.BytesIO()
    np.lib.format.write_array(data, array, allow_pickle=False)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {"kind": kind, "npy": base64.b64encode(data.getvalue()).decode("ascii")}


def _unstorable_error(subject: str, why: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E368",
        f"{subject} is read after its group ended, so it is stored with each checkpoint, "
        f"but it {why}",
        "give out something smaller, or make it a state blob in init",
    )
