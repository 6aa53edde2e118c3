"""Digests of what ``rebuild`` tasks make: constants are never stored, only recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from jobrun.blobs.objects import ObjectFacts
from jobrun.blobs.trees import is_tree, taken_apart
from jobrun.core.errors import TaskFailedError
from jobrun.graph.types import Job
from jobrun.runner.encode import encode
from jobrun.session.base import Session


def constants_of(job: Job, session: Session) -> dict[str, str]:
    """``sha256:…`` of each constant by ``node.name``; one copy at a time is in memory.

    Of an object it is its class: what it holds is what the checkpoint puts into it.

    Raises:
        TaskFailedError: E243, an object is on a node that is not saved.
    """
    digests: dict[str, str] = {}
    for node, names in job.constants:
        for name in names:
            value = session.read(node, (name,))[name]
            if isinstance(value, ObjectFacts):
                _expect_saved(job, node, name, value)
            digest = digest_of(value)
            if digest:
                digests[f"{node}.{name}"] = digest
    return digests


def digest_of(value: Any) -> str:
    """A digest of a value's kind, dtype, shape and bits; empty for what has none."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        head = json.dumps(["array", value.dtype.str, value.shape])
        content = hashlib.sha256(head.encode())
        content.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return f"sha256:{content.hexdigest()}"
    if isinstance(value, ObjectFacts):
        return f"class {value.class_name}"
    if is_tree(value):
        return _digest_of_tree(value)
    try:
        form = encode(value, "a constant")
    except TaskFailedError:
        return ""
    return f"sha256:{hashlib.sha256(json.dumps(form).encode()).hexdigest()}"


def _digest_of_tree(value: Any) -> str:
    parts = taken_apart(value)
    content = hashlib.sha256(json.dumps(parts.structure).encode())
    for path, leaf in sorted(parts.leaves.items()):
        content.update(json.dumps([path, digest_of(leaf)]).encode())
    return f"sha256:{content.hexdigest()}"


def _expect_saved(job: Job, node: str, name: str, value: ObjectFacts) -> None:
    if job.checkpoint.enabled and node not in job.checkpoint.nodes:
        raise TaskFailedError.of(
            "E243",
            f"'{name}' of node '{node}' is an object of class {value.class_name}, and the state of "
            "that node is not saved",
            f"add '{node}' to the nodes of 'checkpoint'",
        )
