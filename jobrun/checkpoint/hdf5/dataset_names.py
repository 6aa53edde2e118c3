"""Quote names of blobs and their parts as names of HDF5 datasets, and unquote them.

A container or an object is a group, and what is in it are datasets and groups in that: a *part*
has the blob's name and a path. Before it is written its name is that of ``part_name``; what is
read from a file has its link, ``model/0.weight``, as its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobrun.core.text.patterns import lazy_pattern

# Separates the blob's name and the steps of the path; no name in a spec contains it.
_STEP = "\0/"
# In place of an empty step, which HDF5 would skip; no quoted name is a single ``%``.
_NOTHING = "%"
# The dataset in a group that describes its structure.
STRUCTURE = ":structure"
_ODD = lazy_pattern("[\\x00-\\x1f%/\\x7f\\ud800-\\udfff]+")
_QUOTED = lazy_pattern("(?:%[0-9A-F]{2})+")


def quote_name(name: str) -> str:
    """Quote a blob's name as an HDF5 dataset name, for example with ``%2F`` for ``/``.

    HDF5 would read ``a/b`` as ``b`` in a group ``a``, and ``.`` as the group itself. So ``%``,
    ``/``, control characters, a dot that is the whole name, and half a surrogate pair become
    ``%`` and two hexadecimal digits for each byte of their UTF-8. All else stays as it is.
    """
    if name == ".":
        return "%2E"
    return _ODD.sub(lambda match: _escaped(match[0]), name) if _ODD.search(name) else name


def part_name(blob: str, path: Iterable[str]) -> str:
    """Join a blob's name and the keys of a value inside it to one unquoted dataset name."""
    return _STEP.join((blob, *path))


def split_part_name(name: str) -> tuple[str, ...]:
    """Split an unquoted dataset name (``part_name``) into the blob's name and the keys."""
    return tuple(name.split(_STEP))


def dataset_path(name: str) -> str:
    """Convert an unquoted dataset name to the dataset's quoted HDF5 path below ``/blobs``."""
    if _STEP not in name:
        return quote_name(name)
    return "/".join(quote_name(step) or _NOTHING for step in name.split(_STEP))


def name_of_path(dataset_path: str) -> str:
    """Convert a dataset's quoted path below ``/blobs`` to its unquoted name (``part_name``)."""
    return _STEP.join(map(_unquote_step, dataset_path.split("/")))


def display_name(name: str) -> str:
    """Return a dataset's name for error messages: the blob's, or the HDF5 path inside a blob."""
    return dataset_path(name) if _STEP in name else name


def root_blob(name: str) -> str:
    """Return the blob's name from the unquoted dataset name of the blob or one of its parts."""
    return name.partition(_STEP)[0]


def path_in_blob(dataset_path: str, blob: str) -> tuple[str, ...]:
    """Return the keys that lead to a value inside a blob, from the value's HDF5 dataset path."""
    steps = dataset_path[len(quote_name(blob)) + 1 :].split("/")
    return tuple(map(_unquote_step, steps))


def blob_of_link(dataset_path: str) -> str:
    """Return the name of the blob to which the dataset with this HDF5 path belongs."""
    return unquote_name(dataset_path.partition("/")[0])


def unquote_name(text: str) -> str:
    """Undo the ``%XX`` quoting of an HDF5 dataset's name; leave a name with a slash as it is."""
    if "%" not in text or "/" in text:
        return text
    return _QUOTED.sub(lambda match: _plain(match[0]), text)


def unquote_names(links: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Unquote a file's HDF5 dataset names, except those that would look like another blob's part.

    Beside a container ``readers`` the blob ``readers/x`` stays ``readers%2Fx``.

    Returns:
        The names; and of the blobs whose names stay quoted, these by the blobs' own.
    """
    groups = {link.partition("/")[0] for link in links if "/" in link}
    names = list(map(unquote_name, links))
    quoted: dict[str, str] = {}
    for at, (link, name) in enumerate(zip(links, names, strict=True)):
        if name != link and quote_name(name.partition("/")[0]) in groups:
            quoted[name] = names[at] = link
    return names, quoted


def _unquote_step(step: str) -> str:
    return "" if step == _NOTHING else unquote_name(step)


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _plain(text: str) -> str:
    return bytes.fromhex(text.replace("%", "")).decode("utf-8", "surrogatepass")


def blob_names(links: Iterable[str], quoted: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the names of the blobs to which HDF5 datasets of these names belong, each name once.

    Args:
        links: Names as ``unquote_names`` returns them.
        quoted: Likewise, of those that stay quoted.
    """
    there = list(links)
    suffix = f"/{STRUCTURE}"
    wholes = {link.partition("/")[0]: blob_of_link(link) for link in there if link.endswith(suffix)}
    wholes |= {link: blob for blob, link in (quoted or {}).items()}
    names = (wholes.get(link.partition("/")[0], link) for link in there)
    return tuple(dict.fromkeys(names))


def is_part_of(link: str, name: str) -> bool:
    """Return whether an HDF5 dataset belongs to a blob: has its name, or lies in its group."""
    return link == name or link.startswith((f"{quote_name(name)}/", f"{name}/"))


def group_links(links: Iterable[str]) -> dict[str, list[str]]:
    """Group the dataset names of parts of blobs by blob; leave out blobs without parts."""
    groups: dict[str, list[str]] = {}
    for link in links:
        if "/" in link:
            groups.setdefault(link.partition("/")[0], []).append(link)
    # A slash alone does not make a group: the name of a single blob may contain one.
    return {
        blob_of_link(quoted): group
        for quoted, group in groups.items()
        if f"{quoted}/{STRUCTURE}" in group
    }


def structure_link(name: str) -> str:
    """Return the name of the HDF5 dataset that records how a blob's parts are nested."""
    return f"{quote_name(name)}/{STRUCTURE}"


def is_structure(link: str) -> bool:
    """Return whether an HDF5 dataset records how the parts of a blob are nested."""
    return link.endswith(f"/{STRUCTURE}")
