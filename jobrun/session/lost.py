"""The loss of a node: its process has ended, with all it held. Not what is done about that."""

from __future__ import annotations

from jobrun.core.errors import EnvironmentFaultError


class NodeLostError(EnvironmentFaultError):
    """A node is gone. The others stand; their workspaces hold no promise.

    Attributes:
        node: Its name.
    """

    node: str = ""

    @classmethod
    def of_node(cls, node: str, how: str) -> NodeLostError:
        """The error of a node whose process has ended in some way, said in words."""
        error = cls.of(
            "E395",
            f"node '{node}' is lost: its process {how}",
            "see what ended it (memory, a crash, kill); resume goes on from the last saved epoch",
        )
        error.node = node
        return error
