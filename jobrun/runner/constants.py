"""Digests of what ``rebuild`` tasks make: constants are never stored, only recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.graph.types import Job
from jobrun.runner.encode import encode
from jobrun.session.base import Session


def constants_of(job: Job, session: Session) -> dict[str, str]:
    """``sha256:…`` of each constant by ``node.name``; one copy at a time is in memory.

    Objects other than arrays, scalars and text have no digest: what is loaded into them is
    their stored state.
    """
    digests: dict[str, str] = {}
    for node, names in job.constants:
        for name in names:
            digest = digest_of(session.read(node, (name,))[name])
            if digest:
                digests[f"{node}.{name}"] = digest
    return digests


def digest_of(value: Any) -> str:
    """A digest of a value's kind, dtype, shape and bits; empty for an object of another kind."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        head = json.dumps(["array", value.dtype.str, value.shape])
        content = hashlib.sha256(head.encode())
        content.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return f"sha256:{content.hexdigest()}"
    try:
        form = encode(value, "a constant")
    except TaskFailedError:
        return ""
    return f"sha256:{hashlib.sha256(json.dumps(form).encode()).hexdigest()}"
