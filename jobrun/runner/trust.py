"""Whether somebody else could change a run under our hands. Looks at owners and modes; no contents.

Anyone may write into a directory that is writable by all, such as one under a shared /tmp; and
who owns a link decides where it leads. The superuser is trusted: he could do all this anyway.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError

_PARTS = ("", "checkpoints", "spec", "superseded", "artifacts", "logs")


def expect_own(run: Path, uid: int | None = None) -> None:
    """See that a run's directories are not another user's trap.

    Args:
        run: The run's directory.
        uid: Of the user; by default that of this process.

    Raises:
        EnvironmentFaultError: E380, a directory is another user's and writable by all, or a link
            that another user made.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    for part in _PARTS:
        why = _suspicious(run / part, ours)
        if why:
            raise EnvironmentFaultError.of(
                "E380",
                f"{run / part} {why}",
                "use a directory of your own; or, if you trust everyone here, add --trust-dir",
            )


def expect_own_unless(run: Path, *, trust: bool) -> None:
    """``expect_own``, unless the user trusts everyone there.

    Raises:
        EnvironmentFaultError: E380, see there.
    """
    if not trust:
        expect_own(run)


def expect_own_place(run_dir: Path, uid: int | None = None) -> None:
    """As ``expect_own``, of the directory in which a run is to be made.

    Raises:
        EnvironmentFaultError: E380, see there.
    """
    ours = {0, os.geteuid() if uid is None else uid}
    why = _suspicious(run_dir, ours)
    if why:
        raise EnvironmentFaultError.of(
            "E380",
            f"{run_dir} {why}",
            "choose another --run-dir; or, if you trust everyone here, add --trust-dir",
        )


def _suspicious(path: Path, ours: set[int]) -> str:
    """Why a directory is not to be trusted; empty when it is, or is not there."""
    try:
        named = path.lstat()
        facts = path.stat()
    except OSError:
        # What is missing, or leads nowhere, is told where it is needed.
        return ""
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in ours:
        return f"is a link that another user (uid {named.st_uid}) made"
    if facts.st_uid not in ours and facts.st_mode & stat.S_IWOTH:
        return f"belongs to another user (uid {facts.st_uid}) and everyone may write into it"
    return ""
