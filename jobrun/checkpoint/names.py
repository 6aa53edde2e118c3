"""Names of blobs as names of HDF5 datasets, and back. Nothing else of HDF5."""

from __future__ import annotations

import re

_ODD = re.compile("[\\x00-\\x1f%/\\x7f\\ud800-\\udfff]+")
_QUOTED = re.compile("(?:%[0-9A-F]{2})+")


def quoted(name: str) -> str:
    """A blob's name as the name of a dataset.

    HDF5 would read ``a/b`` as ``b`` in a group ``a``, and ``.`` as the group itself. So ``%``,
    ``/``, control characters, a dot that is the whole name, and half a surrogate pair become
    ``%`` and two hexadecimal digits for each byte of their UTF-8. All else stays as it is.
    """
    if name == ".":
        return "%2E"
    return _ODD.sub(lambda found: _escaped(found[0]), name) if _ODD.search(name) else name


def unquoted(text: str) -> str:
    """The name that ``quoted`` has made this of."""
    if "%" not in text:
        return text
    return _QUOTED.sub(lambda found: _plain(found[0]), text)


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _plain(text: str) -> str:
    return bytes.fromhex(text.replace("%", "")).decode("utf-8", "surrogatepass")
