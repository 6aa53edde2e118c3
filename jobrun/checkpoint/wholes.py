"""Blobs out of an open checkpoint file, containers and object states put together. Only reads.

What is a part of something in the file is no blob here; ``loading`` has the parts one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobrun.blobs.values import Value
from jobrun.checkpoint.image import StructureError
from jobrun.checkpoint.loading import load
from jobrun.checkpoint.names import STRUCTURE, blob_of, quoted
from jobrun.checkpoint.parts import joined, links_of, structure_link
from jobrun.checkpoint.statefile import StateFile


def load_wholes(
    file: StateFile, names: Iterable[str], *, partial: bool = False
) -> dict[str, Value]:
    """The blobs of these names, in their order; of an object its ``ObjectState``.

    Args:
        file: An open one.
        names: The blobs.
        partial: Leave out names that it does not hold.

    Raises:
        CheckpointError: As by ``loading.load``.
    """
    wanted = list(names)
    index = file.index
    parts = {
        name: links_of(name, index.names) for name in wanted if structure_link(name) in index.rows
    }
    if not parts:
        return load(file, wanted, partial=partial)
    links = [link for name in wanted for link in parts.get(name, [name])]
    values = load(file, links, partial=partial)
    found: dict[str, Value] = {}
    for name in wanted:
        if name in parts:
            found[name] = _joined(file, name, {link: values[link] for link in parts[name]})
        elif name in values:
            found[name] = values[name]
    return found


def whole_names(links: Iterable[str]) -> tuple[str, ...]:
    """The names of blobs, given those of all that is in a file; a container has one."""
    there = list(links)
    ends = f"/{STRUCTURE}"
    wholes = {link.partition("/")[0]: blob_of(link) for link in there if link.endswith(ends)}
    names = (wholes.get(link.partition("/")[0], link) for link in there)
    return tuple(dict.fromkeys(names))


def is_of(link: str, name: str) -> bool:
    """Whether what is in a file is the blob of that name, or a part of it."""
    return link == name or link.startswith((f"{quoted(name)}/", f"{name}/"))


def _joined(file: StateFile, name: str, values: dict[str, Value]) -> Value:
    with file.structure():
        try:
            return joined(name, values)
        except ValueError as error:
            raise StructureError(f"blob '{name}': {error}") from error
