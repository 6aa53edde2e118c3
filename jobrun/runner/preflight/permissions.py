"""Check owners and permissions: whether another user could change a run's directories.

Anyone may write into a directory that is writable by all, such as one under a shared /tmp; and
who owns a link decides where it leads. The superuser is trusted: he could do all this anyway.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError

_PARTS = ("", "checkpoints", "spec", "superseded", "artifacts", "logs")


def require_own(run: Path, uid: int | None = None) -> None:
    """Require that permissions let no other user change a run's directories.

    Args:
        run: The run's directory.
        uid: Of the user; by default that of this process.

    Raises:
        EnvironmentFaultError: E380, a directory is another user's and writable by all, or a link
            that another user made.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    for part in _PARTS:
        why = _find_danger(run / part, ours)
        if why:
            raise EnvironmentFaultError.of(
                "E380",
                f"{run / part} {why}",
                "use a directory of your own; or, if you trust everyone here, add --trust-dir",
            )


def require_own_unless_trusted(run: Path, *, trust: bool) -> None:
    """Require safe permissions of a run's directories, unless the user trusts all others.

    Raises:
        EnvironmentFaultError: E380, see there.
    """
    if not trust:
        require_own(run)


def require_own_parent(run_dir: Path, uid: int | None = None) -> None:
    """Refuse a ``--run-dir`` that is another user's link or world-writable directory.

    Raises:
        EnvironmentFaultError: E380, see there.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    why = _find_danger(run_dir, ours)
    if why:
        raise EnvironmentFaultError.of(
            "E380",
            f"{run_dir} {why}",
            "choose another --run-dir; or, if you trust everyone here, add --trust-dir",
        )


def _find_danger(path: Path, ours: set[int]) -> str:
    """Return why a directory's owner or permissions are dangerous; empty if they are not."""
    try:
        named = path.lstat()
        facts = path.stat()
    except OSError:
        # A missing directory or dangling link is reported where it is needed.
        return ""
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in ours:
        return f"is a link that another user (uid {named.st_uid}) made"
    if facts.st_uid not in ours and facts.st_mode & stat.S_IWOTH:
        return f"belongs to another user (uid {facts.st_uid}) and everyone may write into it"
    return ""
