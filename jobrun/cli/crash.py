"""The report of an internal error, for the person who mends jobrun. No environment values."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from jobrun.version import __version__

_LIBRARIES = ("click", "h5py", "numpy", "pydantic", "pyyaml", "rich")


def write_report(trace: str, arguments: Sequence[str]) -> str | None:
    """Write the report into the folder for temporary files.

    Returns:
        Its path, or None when it cannot be written.
    """
    text = "\n".join(
        [
            f"jobrun {__version__}, Python {platform.python_version()}, {platform.platform()}",
            ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES),
            f"command: jobrun {shlex.join(arguments)}",
            f"executable: {sys.executable}",
            "",
            trace,
        ]
    )
    try:
        number, path = tempfile.mkstemp(prefix="jobrun-crash-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        return None
    return path


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "missing"
