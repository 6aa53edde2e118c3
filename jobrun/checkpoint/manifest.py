"""The record that makes an epoch's files one checkpoint, as bytes. Not where it is stored.

Canonical JSON: one manifest has one text, so a reader can, and does, refuse any other. The
last key is ``sha256``, of the text without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from jobrun.checkpoint.store import Manifest, StoredFile
from jobrun.checkpoint.userblock import DIGEST, damaged, newer_format
from jobrun.core.names import FILE_NAME

NAME = "manifest.json"
FORMAT = 1
# Far more than any; what is longer is not read.
MOST_BYTES = 1 << 28
_DIGEST = re.compile(rb'  "sha256": "([0-9a-f]{64})"\n}\n\Z')


def encode(manifest: Manifest) -> bytes:
    """The manifest as text for files: ASCII, keys sorted, a line feed at the end.

    Raises:
        ValueError: ``runner`` or ``environment`` holds what JSON cannot, such as NaN.
    """
    fields = {
        "epoch": manifest.epoch,
        "files": [_file_form(file) for file in manifest.files],
        "format": FORMAT,
        "generation": manifest.generation,
        "run_id": manifest.run_id,
        "spec_digest": manifest.spec_digest,
        "environment": dict(manifest.environment),
        "runner": dict(manifest.runner),
    }
    text = json.dumps(fields, sort_keys=True, indent=2, allow_nan=False).encode("ascii")
    digest = hashlib.sha256(text).hexdigest()
    return text[:-2] + f',\n  "sha256": "{digest}"\n}}\n'.encode("ascii")


def decode(data: bytes, what: str) -> Manifest:
    """The manifest whose text this is.

    Args:
        data: The whole text.
        what: Its file, for messages.

    Raises:
        CheckpointError: It is damaged, or of a newer format.
    """
    found = _DIGEST.search(data)
    if found is None:
        raise damaged(what, "it is no whole manifest")
    text = data[: found.start()].removesuffix(b",\n") + b"\n}"
    if hashlib.sha256(text).hexdigest() != found[1].decode():
        raise damaged(what, "its checksum does not match")
    try:
        fields: Any = json.loads(text)
        if type(fields["format"]) is int and fields["format"] > FORMAT:
            raise newer_format(what, fields["format"], FORMAT)
        manifest = _manifest(fields)
        same = encode(manifest) == data
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(what, f"its fields are not those of a manifest ({error})") from error
    if not same or not _plausible(manifest):
        raise damaged(what, "its fields are not those of a manifest")
    return manifest


def _file_form(file: StoredFile) -> dict[str, object]:
    return {
        "node": file.node,
        "name": file.name,
        "size_bytes": file.size_bytes,
        "digest": file.digest,
    }


def _manifest(fields: Any) -> Manifest:
    files = tuple(StoredFile(**file) for file in fields["files"])
    known = ("epoch", "run_id", "generation", "spec_digest", "runner", "environment")
    return Manifest(files=files, **{key: fields[key] for key in known})


def _plausible(manifest: Manifest) -> bool:
    texts = (manifest.run_id, manifest.spec_digest)
    numbers = (manifest.epoch, manifest.generation, *(file.size_bytes for file in manifest.files))
    return (
        all(type(text) is str for text in texts)
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(_plausible_file(file) for file in manifest.files)
        and len({file.name for file in manifest.files}) == len(manifest.files)
        and len({file.node for file in manifest.files}) == len(manifest.files)
    )


def _plausible_file(file: StoredFile) -> bool:
    texts = (file.node, file.name, file.digest)
    return (
        all(type(text) is str for text in texts)
        # A name that leaves the directory would let a manifest point at any file.
        and FILE_NAME.fullmatch(file.node) is not None
        and file.name == f"{file.node}.h5"
        and DIGEST.fullmatch(file.digest) is not None
    )
