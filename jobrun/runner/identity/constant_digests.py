"""Digest the constants of a job after init, to compare them at each resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.files.digest import digest_bytes
from jobrun.graph.types import Job
from jobrun.runner.identity.drift import compare_mappings, require_no_drift
from jobrun.runner.saved_progress import encode_json
from jobrun.session.base import Session
from jobrun.values.container_flattening import flatten, is_tree
from jobrun.values.object_state import ObjectFacts


def digest_constants(job: Job, session: Session) -> dict[str, str]:
    """Digest each constant of a job after init; return ``sha256:…`` by ``node.name``.

    Of an object it is its class: what it holds is what the checkpoint puts into it.

    Raises:
        TaskFailedError: E243, an object is on a node that is not saved.
    """
    digests: dict[str, str] = {}
    for node, names in job.constants:
        for name in names:
            value = session.read(node, (name,))[name]
            if isinstance(value, ObjectFacts):
                _require_saved(job, node, name, value)
            digest = digest_value(value)
            if digest:
                digests[f"{node}.{name}"] = digest
    return digests


def digest_value(value: Any) -> str:
    """Digest a constant by kind, dtype, shape and bits; return "" if that is not possible."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        head = json.dumps(["array", value.dtype.str, value.shape])
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return digest_bytes(head.encode(), content)
    if isinstance(value, ObjectFacts):
        return f"class {value.class_name}"
    if is_tree(value):
        return _digest_tree(value)
    try:
        encoded = encode_json(value, "a constant")
    except TaskFailedError:
        return ""
    return digest_bytes(json.dumps(encoded).encode())


def _digest_tree(value: Any) -> str:
    parts = flatten(value)
    leaves = ([path, digest_value(leaf)] for path, leaf in sorted(parts.leaves.items()))
    return digest_bytes(*(json.dumps(part).encode() for part in (parts.structure, *leaves)))


def _require_saved(job: Job, node: str, name: str, value: ObjectFacts) -> None:
    if job.checkpoint.enabled and node not in job.checkpoint.nodes:
        raise TaskFailedError.of(
            "E243",
            f"'{name}' of node '{node}' is an object of class {value.class_name}, and the state of "
            "that node is not saved",
            f"add '{node}' to the nodes of 'checkpoint'",
        )


def require_same_constants(
    recorded: Mapping[str, str], rebuilt: Mapping[str, str], accept: tuple[str, ...] = ()
) -> None:
    """Raise if the digests of rebuilt constants differ from those recorded, unless accepted.

    Raises:
        DriftError: They did not: the data, or the code, is another.
    """
    require_no_drift(compare_mappings("constants", recorded, rebuilt), accept=accept)
