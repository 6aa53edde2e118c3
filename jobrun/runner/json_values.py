"""Convert blob values and outputs to JSON and back, bit for bit, for the manifest.

Kind, dtype, shape and bits survive: a Python float stays one, an array of shape () stays
an array. What has no JSON form of its own becomes a mapping with the key ``kind``.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import is_long
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.container_flattening import flatten, is_tree, unflatten

LIMIT_BYTES = 1 << 20


def encode_json(value: Any, what: str) -> Any:
    """Convert a blob value or an output to JSON that ``decode_json`` reads bit for bit.

    Args:
        value: A Python or numpy scalar, text, None, an array, or a container of these.
        what: What it is, for the error: ``output lloyd.shift``.

    Raises:
        TaskFailedError: It is of another kind, or larger than 1 MiB.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _encode_array(value, what)
    if isinstance(value, int):
        return {"kind": "int", "value": hex(value)} if is_long(value) else value
    if isinstance(value, float):
        # JSON has no NaN and no infinity.
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, complex):
        return {
            "kind": "complex",
            "value": [encode_json(value.real, what), encode_json(value.imag, what)],
        }
    if is_tree(value) and not _is_flat(value):
        try:
            parts = flatten(value)
        except UnsavableError as error:
            raise _unstorable_error(what, f"holds {error.what}") from error
        leaves = [[list(path), encode_json(leaf, what)] for path, leaf in parts.leaves.items()]
        return {"kind": "tree", "structure": parts.structure, "leaves": leaves}
    if isinstance(value, list | tuple):
        form = "list" if isinstance(value, list) else "tuple"
        return {"kind": form, "items": [encode_json(item, what) for item in value]}
    raise _unstorable_error(what, f"is a {type(value).__name__}")


def decode_json(form: Any) -> Any:
    """Convert the JSON form of a blob value or an output back to the value, bit for bit.

    Raises:
        ValueError: It is the form of nothing.
    """
    if not isinstance(form, dict):
        return form
    match form.get("kind"):
        case "int":
            return int(form["value"], 16)
        case "float":
            return float(form["value"])
        case "complex":
            real, imaginary = form["value"]
            return complex(decode_json(real), decode_json(imaginary))
        case "list":
            return [decode_json(item) for item in form["items"]]
        case "tuple":
            return tuple(decode_json(item) for item in form["items"])
        case "tree":
            leaves = {tuple(path): decode_json(leaf) for path, leaf in form["leaves"]}
            return unflatten(form["structure"], leaves)
        case "array" | "scalar":
            data = io.BytesIO(base64.b64decode(form["npy"]))
            array = np.lib.format.read_array(data, allow_pickle=False)
            return array if form["kind"] == "array" else array[()]
        case kind:
            raise ValueError(f"no value has the kind {kind!r}")


def _is_flat(value: Any) -> bool:
    """Return whether a list can be JSON as it is: without containers, and no array twice in it."""
    if type(value) not in (list, tuple) or any(map(is_tree, value)):
        return False
    arrays = [id(one) for one in value if isinstance(one, np.ndarray)]
    return len(set(arrays)) == len(arrays)


def _encode_array(value: np.generic | np.ndarray[Any, Any], what: str) -> dict[str, str]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _unstorable_error(what, "holds Python objects")
    if array.nbytes > LIMIT_BYTES:
        raise _unstorable_error(what, f"has {array.nbytes} bytes, and {LIMIT_BYTES} is the most")
    data = io.BytesIO()
    np.lib.format.write_array(data, array, allow_pickle=False)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {"kind": kind, "npy": base64.b64encode(data.getvalue()).decode("ascii")}


def _unstorable_error(what: str, why: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E368",
        f"{what} is read after its group ended, so it is stored with each checkpoint, but it {why}",
        "give out something smaller, or make it a state blob in init",
    )
