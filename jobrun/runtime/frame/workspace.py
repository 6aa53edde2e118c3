"""Hold blobs by name in workspaces.

The chain, innermost first: instance, task, group run, node. There is no search along it at
run time: every name of a task has exactly one ``Scope``.
"""

from __future__ import annotations

from typing import Final, NoReturn

from jobrun.graph.types import Scope
from jobrun.values.blob_kinds import Value

# The one-letter names that generated code and frames use for the four workspaces.
LEVELS: Final[dict[Scope, str]] = {
    Scope.INSTANCE: "i",
    Scope.TASK: "t",
    Scope.GROUP: "g",
    Scope.NODE: "n",
}


class MissingBlobError(LookupError):
    """A blob was read that no step has made. ``name`` is the blob's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Blobs(dict[str, Value]):
    """The blobs of one workspace, by name.

    Single reads and writes are indivisible, so tasks of one node may share a workspace.
    """

    __slots__ = ()

    def __missing__(self, name: str) -> NoReturn:
        raise MissingBlobError(name)

    def drop(self, name: str) -> None:
        """Remove a blob from the workspace.

        Raises:
            MissingBlobError: There is none of that name.
        """
        if name not in self:
            raise MissingBlobError(name)
        del self[name]


def display_name(name: str) -> str:
    """Return a blob's name as the spec has it, from its name in a workspace."""
    return name.rpartition(":")[2]
