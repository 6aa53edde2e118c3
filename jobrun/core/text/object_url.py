"""Recognise and split URLs of object stores, such as ``s3://bucket/prefix``, without a request."""

from __future__ import annotations

from msgspec import Struct

from jobrun.core.text.patterns import lazy_pattern

_URL = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/?(.*)")
# Each scheme, and what people call the store.
SCHEMES: dict[str, str] = {
    "s3": "S3",
    "s3a": "S3",
    "gs": "Google Cloud Storage",
    "az": "Azure",
    "azure": "Azure",
    "abfs": "Azure",
    "abfss": "Azure",
    "adl": "Azure",
    "memory": "memory",
}


class ObjectUrl(Struct, frozen=True):
    """The parts of a URL of an object store.

    Attributes:
        scheme: One of ``SCHEMES``.
        bucket: What the store calls a bucket or a container.
        prefix: What the names of all objects begin with; no slash at either end, maybe empty.
    """

    scheme: str
    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def __truediv__(self, name: str) -> ObjectUrl:
        return ObjectUrl(self.scheme, self.bucket, f"{self.prefix}/{name}".strip("/"))


def scheme_of(text: str) -> str:
    """Return the scheme of an object store's URL in lower case; empty for a local path."""
    match = _URL.fullmatch(text)
    return match[1].lower() if match else ""


def is_object_url(text: str) -> bool:
    """Return whether a text is a URL of an object store rather than a local path."""
    return scheme_of(text) in SCHEMES


def parse_object_url(text: str) -> ObjectUrl:
    """Split a URL of an object store into scheme, bucket and prefix.

    Raises:
        ValueError: It is none of an object store, or names no bucket; the message says so.
    """
    match = _URL.fullmatch(text)
    if match is None or match[1].lower() not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValueError(f"'{text}' is no URL of an object store; those begin with {known}")
    scheme, bucket, prefix = match[1].lower(), match[2], match[3].strip("/")
    if "@" in bucket and scheme not in {"abfs", "abfss"}:
        raise ValueError("the URL holds a user or a password; these belong into the environment")
    if not bucket:
        raise ValueError(f"'{text}' names no bucket; write {scheme}://BUCKET/prefix")
    if prefix and ({*"?#"} & {*prefix} or {"", ".", ".."} & {*prefix.split("/")}):
        raise ValueError(f"in '{text}', '?', '#', '..' and '//' mean nothing")
    return ObjectUrl(scheme, bucket, prefix)
