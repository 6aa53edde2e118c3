"""Where ``checkpoint.upload`` copies to: a directory, by its path or as a ``file://`` URL."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.graph.conditions import UploadPolicy
from jobrun.spec.models import UploadSpec
from jobrun.spec.source import path_text

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE = "file://"
_MEND = "write a directory such as /backup/checkpoints, or file:///backup/checkpoints"


def upload_policy(written: UploadSpec | None, context: Context) -> UploadPolicy | None:
    """The policy; a place that cannot be copied to is a fault."""
    if written is None:
        return None
    at = ("checkpoint", "upload", "to")
    policy = UploadPolicy(written.to, written.when, written.required)
    return local_upload(policy, Place(path_text(at), context.source.at(at)), context.faults)


def local_upload(policy: UploadPolicy, place: Place, faults: Faults) -> UploadPolicy | None:
    """The policy with the path of its directory; a place that cannot be copied to is a fault."""
    try:
        return replace(policy, to=local_directory(policy.to))
    except ValueError as error:
        faults.error("E127", str(error), _MEND, place)
        return None


def local_directory(text: str) -> str:
    """The path of a directory on this machine, as written, relative or absolute.

    Raises:
        ValueError: It is on no file system of this machine; the message says why.
    """
    if not text:
        raise ValueError("'upload.to' is empty")
    found = _SCHEME.match(text)
    if found is None:
        return text
    if found[1].lower() != "file":
        raise ValueError(f"uploads go to directories; '{found[1]}://' is not carried out yet")
    rest = text[len(_FILE) :].removeprefix("localhost")
    if not rest.startswith("/"):
        raise ValueError(f"'{text}' names a machine, not a directory of this one")
    return unquote(rest)
