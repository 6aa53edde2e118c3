"""Upload the user's modules to the machines of a Ray cluster that do not have them.

The modules are those beside the spec: files, and folders that hold some. Where a node's machine
has the same folder with the same modules (a shared disk, or the same machine), that one is used.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

_SUFFIXES = frozenset((".py", ".so"))
_MOST_FILES = 5_000
_MOST_BYTES = 1 << 26
_PREFIX = "jobrun_code_"


class TooMuchCodeError(Exception):
    """There are more modules than are sent to every machine."""


def list_module_files(folder: Path) -> tuple[Path, ...]:
    """List the files of user modules in a folder that are to be uploaded, sorted.

    Raises:
        TooMuchCodeError: There are too many, or they are too large.
    """
    paths: list[Path] = []
    size_bytes = 0
    for path in _iter_module_files(folder):
        paths.append(path.relative_to(folder))
        size_bytes += path.stat().st_size
        if len(paths) > _MOST_FILES or size_bytes > _MOST_BYTES:
            raise TooMuchCodeError(f"more than {_MOST_FILES} files, or {_MOST_BYTES >> 20} MiB")
    return tuple(sorted(paths))


def _iter_module_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in _SUFFIXES:
            yield path
        elif path.is_dir() and path.name.isidentifier() and not path.name.startswith("__"):
            below = list(_iter_module_files(path))
            # A folder with modules only in sub-folders is no package, but a home or a checkout.
            if any(module.parent == path for module in below):
                yield from below


def digest_modules(folder: Path) -> str:
    """Return a short SHA-256 of the user's modules to upload; empty if there are no modules.

    Raises:
        TooMuchCodeError: See ``list_module_files``.
    """
    files = list_module_files(folder)
    if not files:
        return ""
    digest = hashlib.sha256()
    for path in files:
        content = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        digest.update(f"{path.as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:32]


def stage_modules(folder: Path, into: Path, digest: str) -> Path:
    """Copy the user's modules into a folder to upload, named after their digest."""
    staged = into / f"{_PREFIX}{digest}"
    for path in list_module_files(folder):
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, staged / path)
    return staged


def make_importable(folder: str, digest: str) -> str:
    """Make the modules uploaded with Ray importable on this machine; return what is wrong, or "".

    Args:
        folder: Where they are on the master's machine.
        digest: Of them; empty for none.
    """
    try:
        here = digest_modules(Path(folder)) if digest else ""
    except (OSError, TooMuchCodeError):
        here = "unknown"
    if here == digest:
        return ""
    if here:
        return f"has other modules in '{folder}' than the machine that runs the job"
    # Ray puts the parent of an uploaded folder on sys.path: it is found like a package.
    spec = PathFinder.find_spec(f"{_PREFIX}{digest}")
    if spec is None or not spec.submodule_search_locations:
        return f"has no modules in '{folder}', and none were sent to it"
    sent = next(iter(spec.submodule_search_locations))
    if sent not in sys.path:
        sys.path.insert(0, sent)
    return ""
