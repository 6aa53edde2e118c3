r"""Encode and decode the user block of a checkpoint file: its first 4096 bytes.

HDF5 skips them (its "user block"), and a reader checks by them every byte behind them before
libhdf5 sees one. ``head -c 600 trainer.h5`` shows them to a person. Their layout::

    jobrun checkpoint\n            the magic
    {"digest": …, "epoch": …}\n    one line of JSON, keys sorted
    NUL …                          up to byte 4064
    32 bytes                       SHA-256 of bytes 0 to 4063
"""

from __future__ import annotations

import hashlib
import json
from operator import attrgetter
from typing import Any

from msgspec import Struct

from jobrun.core.errors import CheckpointError
from jobrun.core.files.json_files import build_encoder
from jobrun.core.text.patterns import lazy_pattern

SIZE = 4096
FORMAT = 3
# Format 2 has no digests of values; it can still be read.
OLDEST_FORMAT = 2
MAGIC = b"jobrun checkpoint\n"
_TEXT_SIZE = SIZE - 32
DIGEST = lazy_pattern(r"sha256:[0-9a-f]{64}")


class Parts(Struct, frozen=True):
    """Where the index and the tail of a file are, in bytes from its beginning.

    Attributes:
        index: Where the index begins: two texts, each padded to a multiple of 8, and a table.
        layout_bytes: The length of its first text, the kinds, dtypes and shapes.
        names_bytes: Of its second one, the names.
        blobs: How many rows the table has.
        tail: Where the tail begins: the epoch, places of chunks, digests of values and of blocks.
        chunks: How many chunks it lists.
        blocks: How many blocks.
        values: How many values have a digest of their own, which it lists; from format 3 on.
    """

    index: int
    layout_bytes: int
    names_bytes: int
    blobs: int
    tail: int
    chunks: int
    blocks: int
    values: int = 0


class Header(Struct, frozen=True):
    """What the user block of a checkpoint file says.

    Attributes:
        node: Whose state the file holds.
        epoch: Of which epoch.
        run_id: Of which run.
        length: How many bytes follow the user block.
        digest: ``sha256:<hex>`` of the tail, which has the digests of all other bytes.
        layout: ``sha256:<hex>`` of the names, kinds, dtypes and shapes of the blobs.
        parts: Where index and tail are.
        types: ``xxh3:<hex>`` of names, kinds, dtypes, shapes and axis orders, taken of the blobs in
            memory; from format 3 on.
        format: The version of the format.
    """

    node: str
    epoch: int
    run_id: str
    length: int
    digest: str
    layout: str
    parts: Parts
    types: str = ""
    format: int = FORMAT


_encode = build_encoder(sort_keys=True)
_HEADER, _PARTS = attrgetter(*Header.__struct_fields__), attrgetter(*Parts.__struct_fields__)


def encode(header: Header) -> bytes:
    """Encode the header of a checkpoint file as a user block of 4096 bytes.

    Raises:
        ValueError: Its text does not fit; names are far shorter than that.
    """
    text = MAGIC + _encode(_fields(header)).encode() + b"\n"
    if len(text) > _TEXT_SIZE:
        raise ValueError("the header does not fit into the user block")
    text = text.ljust(_TEXT_SIZE, b"\0")
    return text + hashlib.sha256(text).digest()


def _fields(header: Header) -> dict[str, Any]:
    """Convert the header of a user block to a dict, faster than ``asdict`` does."""
    fields = dict(zip(Header.__struct_fields__, _HEADER(header), strict=True))
    fields["parts"] = dict(zip(Parts.__struct_fields__, _PARTS(header.parts), strict=True))
    if header.format == OLDEST_FORMAT:
        del fields["types"], fields["parts"]["values"]
    return fields


def decode(block: bytes | memoryview, file: str) -> Header:
    """Decode the user block in a file's first 4096 bytes, after verifying its checksum.

    Args:
        block: These bytes, or fewer when the file has no more.
        file: The file, for messages.

    Raises:
        CheckpointError: It is no checkpoint, damaged, or of a newer format.
    """
    block = bytes(block[:SIZE])
    if not block.startswith(MAGIC):
        raise CheckpointError.of(
            "E301", f"{file} is not a jobrun checkpoint", "name a file that jobrun has written"
        )
    if len(block) < SIZE:
        raise CheckpointError.of(
            "E302",
            f"{file} is truncated: it has {len(block)} bytes, and its header alone has {SIZE}",
            "use another epoch, or a copy of this one",
        )
    text = block[:_TEXT_SIZE]
    if hashlib.sha256(text).digest() != block[_TEXT_SIZE:]:
        raise damaged_error(file, "its header's checksum does not match")
    return _parse(text, file)


def damaged_error(file: str, reason: str) -> CheckpointError:
    """Build error E303: a checkpoint file is damaged, for example in its user block."""
    return CheckpointError.of(
        "E303", f"{file} is damaged: {reason}", "use another epoch, or a copy of this one"
    )


def _parse(text: bytes, file: str) -> Header:
    try:
        fields: Any = json.loads(text[len(MAGIC) :].rstrip(b"\0"))
        version = fields["format"]
        if type(version) is int and not OLDEST_FORMAT <= version <= FORMAT:
            raise unknown_format_error(file, version, FORMAT, OLDEST_FORMAT)
        header = Header(**fields | {"parts": Parts(**fields["parts"])})
        written = encode(header)[:_TEXT_SIZE]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged_error(file, "its header cannot be read") from error
    if written != text or not _is_plausible(header):
        raise damaged_error(file, "its header cannot be read")
    return header


def unknown_format_error(
    file: str, version: int, known: int, oldest: int | None = None
) -> CheckpointError:
    """Build error E308: a user block has a format that this version of jobrun cannot read.

    Args:
        file: The file.
        version: Its format.
        known: The newest format that is read.
        oldest: The oldest one; the same if None.
    """
    writer = "a newer jobrun" if version > known else "an older jobrun"
    formats = known if oldest is None else f"{oldest} to {known}"
    return CheckpointError.of(
        "E308",
        f"{file} was written by {writer}: it has format {version}, this version reads {formats}",
        "use the version of jobrun that wrote it",
    )


def _is_plausible(header: Header) -> bool:
    texts = (header.node, header.run_id, header.digest, header.layout, header.types)
    numbers = (
        header.epoch,
        header.length,
        *_PARTS(header.parts),
    )
    return (
        type(header.format) is int
        and all(type(text) is str for text in texts)
        and all(type(number) is int and number >= 0 for number in numbers)
        and DIGEST.fullmatch(header.digest) is not None
    )
