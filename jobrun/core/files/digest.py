"""Compute SHA-256 digests as records have them: ``sha256:`` and hexadecimal digits."""

from __future__ import annotations

from pathlib import Path

PREFIX = "sha256:"


def digest_bytes(*parts: bytes | memoryview) -> str:
    """Compute the digest ``sha256:<hex>`` of bytes, given in one or several parts."""
    # hashlib loads OpenSSL, which commands without digests do not need.
    from hashlib import sha256  # noqa: PLC0415

    hasher = sha256()
    for part in parts:
        hasher.update(part)
    return f"{PREFIX}{hasher.hexdigest()}"


def digest_file(path: Path) -> str:
    """Compute the digest ``sha256:<hex>`` of the bytes of a file.

    Raises:
        OSError: It cannot be read.
    """
    from hashlib import file_digest  # noqa: PLC0415 - loads OpenSSL

    with path.open("rb") as file:
        return f"{PREFIX}{file_digest(file, 'sha256').hexdigest()}"
