"""Where ``checkpoint.upload`` copies to: a directory or an object store. Asks neither."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.core.objecturl import SCHEMES, is_object_url, parse_object_url, scheme_of
from jobrun.graph.conditions import UploadPolicy
from jobrun.spec.models import UploadSpec
from jobrun.spec.source import path_text

_FILE = "file://"
_MEND = "write a directory such as /backup/checkpoints, or a URL such as s3://bucket/runs"


def upload_policy(written: UploadSpec | None, context: Context) -> UploadPolicy | None:
    """The policy; a place that cannot be copied to is a fault."""
    if written is None:
        return None
    at = ("checkpoint", "upload", "to")
    policy = UploadPolicy(written.to, written.when, written.required)
    return resolved_upload(policy, Place(path_text(at), context.source.at(at)), context.faults)


def resolved_upload(policy: UploadPolicy, place: Place, faults: Faults) -> UploadPolicy | None:
    """The policy with the path of its directory, or its URL in its usual form.

    A place that cannot be copied to is a fault.
    """
    try:
        if is_object_url(policy.to):
            return replace(policy, to=str(parse_object_url(policy.to)))
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
    scheme = scheme_of(text)
    if not scheme:
        return text
    if scheme != "file":
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise ValueError(f"'{scheme}://' is not known; uploads go to paths, file://, {known}")
    rest = text[len(_FILE) :].removeprefix("localhost")
    if not rest.startswith("/"):
        raise ValueError(f"'{text}' names a machine, not a directory of this one")
    return unquote(rest)
