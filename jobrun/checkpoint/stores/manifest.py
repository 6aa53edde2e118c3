"""Encode and decode the manifest, the record that makes an epoch's files one checkpoint.

Canonical JSON: one manifest has one text, so a reader can, and does, refuse any other. The
last key is ``sha256``, of the text without it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobrun.checkpoint.hdf5.user_block import DIGEST, damaged_error, unknown_format_error
from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.checkpoint.read.verified_file import open_state, read_verified
from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.stores.object_references import local_path
from jobrun.core.errors import CheckpointError
from jobrun.core.files.json_files import build_encoder
from jobrun.core.text.names import FILE_NAME
from jobrun.core.text.patterns import lazy_pattern
from jobrun.values.adapters.registry import RemakeError

NAME = "manifest.json"
FORMAT = 1
# The key of a manifest's runner mapping for settings of libraries, by node.
SETTINGS = "settings"
# Far more than any manifest has; a longer file is not read.
MOST_BYTES = 1 << 28
# Cache of encoded environments, by their ``repr``.
_ENVIRONMENTS: dict[str, str] = {}
_MOST_ENVIRONMENTS = 16
_CONTAINERS = (dict, list, tuple)
_DIGEST = lazy_pattern(rb'  "sha256": "([0-9a-f]{64})"\n}\n\Z')


def encode(manifest: Manifest) -> bytes:
    """Encode a manifest as JSON text: ASCII, keys sorted, a line feed at the end.

    Raises:
        ValueError: ``runner`` or ``environment`` holds what JSON cannot, such as NaN.
    """
    # In the order of the keys. All epochs of a run have the same environment.
    texts = {
        "environment": _environment_text(repr(manifest.environment), manifest),
        "epoch": _dumps(manifest.epoch),
        "files": _dumps([_file_form(file) for file in manifest.files], 1),
        "format": _dumps(FORMAT),
        "generation": _dumps(manifest.generation),
        "run_id": _dumps(manifest.run_id),
        "runner": _dumps(dict(manifest.runner), 1),
        "spec_digest": _dumps(manifest.spec_digest),
    }
    text = "{\n  " + ",\n  ".join([f'"{key}": {json_text}' for key, json_text in texts.items()])
    digest = hashlib.sha256(f"{text}\n}}".encode("ascii")).hexdigest()
    return f'{text},\n  "sha256": "{digest}"\n}}\n'.encode("ascii")


def _dumps(value: Any, depth: int = 0) -> str:
    """Encode a value of the manifest like ``json.dumps`` with an indent of two and sorted keys.

    ``json`` itself indents in Python, item by item; what contains no container is encoded in C.
    """
    if not (isinstance(value, _CONTAINERS) and value):
        return _encode(value)
    before, behind = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, _CONTAINERS) and part:
            break
    else:
        text = _encoder("," + before)(value)
        return f"{text[0]}{before}{text[1:-1]}{behind}{text[-1]}"
    if isinstance(value, dict):
        parts = [f"{_encode(key)}: {_dumps(value[key], depth + 1)}" for key in sorted(value)]
        return f"{{{before}{f',{before}'.join(parts)}{behind}}}"
    parts = [_dumps(part, depth + 1) for part in value]
    return f"[{before}{f',{before}'.join(parts)}{behind}]"


@functools.cache
def _encoder(between: str) -> Callable[[Any], str]:
    return build_encoder(separators=(between, ": "), sort_keys=True)


_encode = _encoder(",")


def _environment_text(shown: str, manifest: Manifest) -> str:
    """Encode the field ``environment`` of a manifest, such as package versions, as JSON text."""
    if shown not in _ENVIRONMENTS:
        if len(_ENVIRONMENTS) > _MOST_ENVIRONMENTS:
            _ENVIRONMENTS.clear()
        _ENVIRONMENTS[shown] = _dumps(dict(manifest.environment), 1)
    return _ENVIRONMENTS[shown]


def decode(data: bytes, file: str) -> Manifest:
    """Decode the JSON text of a manifest, after verifying its checksum.

    Args:
        data: The whole text.
        file: Its file, for messages.

    Raises:
        CheckpointError: It is damaged, or of a newer format.
    """
    match = _DIGEST.search(data)
    if match is None:
        raise damaged_error(file, "it is not a complete manifest")
    text = data[: match.start()].removesuffix(b",\n") + b"\n}"
    if hashlib.sha256(text).hexdigest() != match[1].decode():
        raise damaged_error(file, "its checksum does not match")
    try:
        fields: Any = json.loads(text)
        if type(fields["format"]) is int and fields["format"] != FORMAT:
            raise unknown_format_error(file, fields["format"], FORMAT)
        manifest = _manifest(fields)
        same = encode(manifest) == data
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged_error(file, f"its fields are not those of a manifest ({error})") from error
    if not same or not _plausible(manifest):
        raise damaged_error(file, "its fields are not those of a manifest")
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


def find_damage(directory: str, file: StoredFile, *, whole: bool) -> str:
    """Return how a checkpoint file differs from its manifest, as text; empty if it does not.

    Args:
        directory: Where it should be.
        file: What the manifest says.
        whole: Compare the digest too, not only the length.
    """
    path = str(Path(directory, file.name))
    try:
        at = local_path(path)
        with open_regular_file(path, at=at) as (_, length):
            if length != file.size_bytes:
                return f"{file.name} has {length} bytes, expected {file.size_bytes}"
        if whole:
            for _ in read_verified(path, file.digest, at=at):
                pass
            _require_values(path, at)
    except CheckpointError as error:
        return error.faults[0].message
    return ""


def _require_values(path: str, at: str) -> None:
    """Require that a file whose bytes are those of its manifest holds the values that were saved.

    Raises:
        CheckpointError: E455, it does not.
    """
    from jobrun.checkpoint.read.load import require_saved_values  # noqa: PLC0415 - to verify only

    try:
        with open_state(path, at=at) as file:
            require_saved_values(file)
    except CheckpointError as error:
        # A file without a checkpoint's header is compared with its manifest as a whole. A format
        # of another version, or a value that its library cannot rebuild before its settings are
        # loaded, is no damage: loading reports it.
        structure = error.__cause__
        remade = structure is None or not isinstance(structure.__cause__, RemakeError)
        if remade and error.faults[0].code not in {"E301", "E308"}:
            raise


def saved_settings(manifest: Manifest, node: str) -> tuple[tuple[str, Any], ...]:
    """Return a node's library settings, such as PyTorch's, from an epoch's manifest.

    A node that was not there when the epoch was saved gets those of another one.
    """
    by_node = manifest.runner.get(SETTINGS, {})
    return tuple(by_node.get(node, next(iter(by_node.values()), {})).items())


def manifest_identity(manifest: Manifest) -> tuple[object, ...]:
    """Return the fields of a manifest that are equal in every copy of the epoch."""
    return (manifest.epoch, manifest.run_id, manifest.generation, manifest.files)
