r"""The first 4096 bytes of a checkpoint file: whose it is, how long, and its digest. No HDF5.

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
import re
from dataclasses import asdict, astuple, dataclass
from typing import Any

from jobrun.core.errors import CheckpointError

SIZE = 4096
FORMAT = 2
MAGIC = b"jobrun checkpoint\n"
_TEXT_SIZE = SIZE - 32
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of a file are that jobrun reads itself; bytes from its beginning.

    Attributes:
        index: Where the index begins: two texts, each padded to a multiple of 8, and a table.
        layout_bytes: The length of its first text, the kinds, dtypes and shapes.
        names_bytes: Of its second one, the names.
        blobs: How many rows the table has.
        tail: Where the tail begins: the epoch, places of chunks, digests of blocks.
        chunks: How many chunks it tells of.
        blocks: How many blocks.
    """

    index: int
    layout_bytes: int
    names_bytes: int
    blobs: int
    tail: int
    chunks: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the user block says.

    Attributes:
        node: Whose state the file holds.
        epoch: Of which epoch.
        run_id: Of which run.
        length: How many bytes follow the user block.
        digest: ``sha256:<hex>`` of the tail, which has the digests of all other bytes; in
            format 1 of all bytes behind the user block.
        layout: ``sha256:<hex>`` of the names, kinds, dtypes and shapes of the blobs.
        parts: Where index and tail are; None in format 1, which has none.
        format: The version of the format.
    """

    node: str
    epoch: int
    run_id: str
    length: int
    digest: str
    layout: str
    parts: Parts | None = None
    format: int = 1


def sha256(*parts: bytes | memoryview) -> str:
    """``sha256:<hex>`` of the parts, one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def encode(header: Header) -> bytes:
    """The user block, 4096 bytes.

    Raises:
        ValueError: Its text does not fit; names are far shorter than that.
    """
    fields = asdict(header)
    if header.parts is None:
        del fields["parts"]
    text = MAGIC + json.dumps(fields, sort_keys=True).encode() + b"\n"
    if len(text) > _TEXT_SIZE:
        raise ValueError("the header does not fit into the user block")
    text = text.ljust(_TEXT_SIZE, b"\0")
    return text + hashlib.sha256(text).digest()


def decode(block: bytes | memoryview, what: str) -> Header:
    """The header in the first 4096 bytes of a file; every one of them is checked.

    Args:
        block: These bytes, or fewer when the file has no more.
        what: The file, for messages.

    Raises:
        CheckpointError: It is no checkpoint, damaged, or of a newer format.
    """
    block = bytes(block[:SIZE])
    if not block.startswith(MAGIC):
        raise CheckpointError.of(
            "E301", f"{what} is not a jobrun checkpoint", "name a file that jobrun has written"
        )
    if len(block) < SIZE:
        raise CheckpointError.of(
            "E302",
            f"{what} is truncated: it has {len(block)} bytes, and its header alone has {SIZE}",
            "use another epoch, or a copy of this one",
        )
    text = block[:_TEXT_SIZE]
    if hashlib.sha256(text).digest() != block[_TEXT_SIZE:]:
        raise damaged(what, "its header's checksum does not match")
    return _parse(text, what)


def damaged(what: str, how: str) -> CheckpointError:
    """The error for a file whose bytes are not those that were written."""
    return CheckpointError.of(
        "E303", f"{what} is damaged: {how}", "use another epoch, or a copy of this one"
    )


def _parse(text: bytes, what: str) -> Header:
    try:
        fields: Any = json.loads(text[len(MAGIC) :].rstrip(b"\0"))
        version = fields["format"]
        if isinstance(version, int) and version > FORMAT:
            raise newer_format(what, version, FORMAT)
        if "parts" in fields:
            fields["parts"] = Parts(**fields["parts"])
        header = Header(**fields)
        written = encode(header)[:_TEXT_SIZE]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(what, "its header cannot be read") from error
    if written != text or not _plausible(header):
        raise damaged(what, "its header cannot be read")
    return header


def newer_format(what: str, version: int, known: int) -> CheckpointError:
    """The error for what a later jobrun has written."""
    return CheckpointError.of(
        "E308",
        f"{what} was written by a newer jobrun: it has format {version}, known here is {known}",
        "use the version of jobrun that wrote it, or a newer one",
    )


def _plausible(header: Header) -> bool:
    texts = (header.node, header.run_id, header.digest, header.layout)
    parts = () if header.parts is None else astuple(header.parts)
    numbers = (header.epoch, header.length, header.format, *parts)
    return (
        header.format == (1 if header.parts is None else FORMAT)
        and all(type(text) is str for text in texts)
        and all(type(number) is int and number >= 0 for number in numbers)
        and DIGEST.fullmatch(header.digest) is not None
    )
