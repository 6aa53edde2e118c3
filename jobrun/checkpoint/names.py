"""Names of blobs as names of HDF5 datasets, and back. Nothing else of HDF5.

A container or an object is a group, and what is in it are datasets and groups in that: a *part*
has the blob's name and a path. Before it is written its name is that of ``part_name``; what is
read from a file has its link, ``model/0.weight``, as its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Between the blob's name and each step of the path. No name of a spec can have it.
_STEP = "\0/"
# A step without any letters, which HDF5 would pass over; alone it is nobody's quoted name.
_NOTHING = "%"
# Where a group tells how its parts belong together.
STRUCTURE = ":structure"
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


def part_name(blob: str, path: Iterable[str]) -> str:
    """The name of a part of a blob, before it is written."""
    return _STEP.join((blob, *path))


def link(name: str) -> str:
    """The place of a blob, or of a part of one, below ``/blobs``; a ``/`` is before a step."""
    if _STEP not in name:
        return quoted(name)
    return "/".join(quoted(step) or _NOTHING for step in name.split(_STEP))


def shown(name: str) -> str:
    """A name as people read it: what a part has in a file, and other names as they are."""
    return link(name) if _STEP in name else name


def root_of(name: str) -> str:
    """The blob that a name is, or that it is a part of, before it is written."""
    return name.partition(_STEP)[0]


def path_of(link: str, blob: str) -> tuple[str, ...]:
    """The path of a part of a blob, given its link."""
    steps = link[len(quoted(blob)) + 1 :].split("/")
    return tuple("" if step == _NOTHING else unquoted(step) for step in steps)


def blob_of(link: str) -> str:
    """The name of the blob that the part with this link belongs to."""
    return unquoted(link.partition("/")[0])


def unquoted(text: str) -> str:
    """The name that ``quoted`` has made this of; the link of a part is its own name."""
    if "%" not in text or "/" in text:
        return text
    return _QUOTED.sub(lambda found: _plain(found[0]), text)


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _plain(text: str) -> str:
    return bytes.fromhex(text.replace("%", "")).decode("utf-8", "surrogatepass")
