"""Values as JSON, bit for bit, for the manifest. Small ones only: state belongs into blobs.

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

LIMIT_BYTES = 1 << 20


def encode(value: Any, what: str) -> Any:
    """The JSON form of a value.

    Args:
        value: A Python or numpy scalar, text, None, an array, or a list or tuple of these.
        what: What it is, for the error: ``output lloyd.shift``.

    Raises:
        TaskFailedError: It is of another kind, or larger than 1 MiB.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _encode_array(value, what)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # JSON has no NaN and no infinity.
        return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
    if isinstance(value, complex):
        return {"kind": "complex", "value": [encode(value.real, what), encode(value.imag, what)]}
    if isinstance(value, list | tuple):
        form = "list" if isinstance(value, list) else "tuple"
        return {"kind": form, "items": [encode(item, what) for item in value]}
    raise _refused(what, f"is a {type(value).__name__}")


def decode(form: Any) -> Any:
    """The value whose JSON form this is.

    Raises:
        ValueError: It is the form of nothing.
    """
    if not isinstance(form, dict):
        return form
    match form.get("kind"):
        case "float":
            return float(form["value"])
        case "complex":
            real, imaginary = form["value"]
            return complex(decode(real), decode(imaginary))
        case "list":
            return [decode(item) for item in form["items"]]
        case "tuple":
            return tuple(decode(item) for item in form["items"])
        case "array" | "scalar":
            data = io.BytesIO(base64.b64decode(form["npy"]))
            array = np.lib.format.read_array(data, allow_pickle=False)
            return array if form["kind"] == "array" else array[()]
        case kind:
            raise ValueError(f"no value has the kind {kind!r}")


def _encode_array(value: np.generic | np.ndarray[Any, Any], what: str) -> dict[str, str]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _refused(what, "holds Python objects")
    if array.nbytes > LIMIT_BYTES:
        raise _refused(what, f"has {array.nbytes} bytes, and {LIMIT_BYTES} is the most")
    data = io.BytesIO()
    np.lib.format.write_array(data, array, allow_pickle=False)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {"kind": kind, "npy": base64.b64encode(data.getvalue()).decode("ascii")}


def _refused(what: str, why: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E368",
        f"{what} is read after its group ended, so it is stored with each checkpoint, but it {why}",
        "give out something smaller, or make it a state blob in init",
    )
