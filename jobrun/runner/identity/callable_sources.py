"""Find and hash the source file of a callable ``module:function`` without importing it."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

from jobrun.core.lazy_dataclass import dataclass

_SCRIPTS = frozenset({".bash", ".jl", ".m", ".pl", ".py", ".r", ".rb", ".sh"})
# In the order in which Python looks for them.
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Source:
    """The file of a callable's module.

    Attributes:
        path: A Python file, a compiled extension, bytecode without source, or the archive that
            holds it; None for a module that has no file (built in, or a namespace package).
        digest: ``sha256:…`` of the file; empty without one.
    """

    path: Path | None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """Where a module would be imported from.

    Attributes:
        file: As ``Source.path``.
        search: For a package: the directories that hold its modules.
    """

    file: Path | None
    search: tuple[Path, ...] = ()


def find_source(module: str, folder: Path) -> Source | None:
    """Find a callable's source file by module name, importing nothing; return it with its hash.

    Returns:
        None when there is no such module.
    """
    found = find_module(module, folder)
    if found is None:
        return None
    if found.file is None:
        return Source(None)
    return Source(found.file, digest_file(found.file))


def find_module(module: str, folder: Path) -> Module | None:
    """Find the source of the module that holds a callable, importing nothing, or return None.

    The search is Python's: a regular package or a file in the folder, then what ``sys.path`` and
    the finders of editable installs know, then namespace packages.
    """
    top, *rest = module.split(".")
    found = _in_directories((folder,), top)
    if found is None or found.file is None:
        installed = _installed(top)
        if found is None or (installed is not None and installed.file is not None):
            found = installed
        elif installed is not None:
            found = Module(None, (*found.search, *installed.search))
    for part in rest:
        if found is None:
            return None
        found = _in_directories(found.search, part)
    return found


def list_modules(search: Sequence[Path], name: str = "") -> dict[str, Path]:
    """List the source files of a callable's package, however deep, by module name.

    Args:
        search: The directories.
        name: The name of the package; empty for modules that are in none, of which only those
            directly in the directories count.
    """
    found: dict[str, Path] = {}
    waiting = [(Path(one), name) for one in search]
    while waiting:
        directory, package = waiting.pop()
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            stem = path.name.partition(".")[0]
            suffix = path.name[len(stem) :]
            if path.is_dir() and package and path.name.isidentifier():
                waiting.append((path, f"{package}.{path.name}"))
            elif suffix in _SUFFIXES and stem.isidentifier():
                full = ".".join(part for part in (package, stem) if part and part != "__init__")
                found.setdefault(full, path)
    return found


def digest_scripts(words: Iterable[str], folder: Path) -> dict[str, str]:
    """Map script files among a command's words to digests of their sources, as for callables."""
    found: dict[str, str] = {}
    for word in words:
        path = folder / word
        inside = not Path(word).is_absolute() and ".." not in Path(word).parts
        if inside and path.suffix.lower() in _SCRIPTS and path.is_file():
            found[f"./{Path(word)}"] = digest_file(path)
    return found


def find_definition(path: Path, name: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a callable's file may define a name, and its functions and classes.

    It may where the text alone does not decide it.
    """
    tree = parse_source(path)
    if tree is None:
        # Importing it will say what is wrong; that is the better message.
        return True, ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    known = tuple(node.name for node in tree.body if isinstance(node, kinds))
    bound = set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, kinds):
            bound.add(node.name)
    return name in bound or "*" in bound or "__getattr__" in bound, known


def parse_source(path: Path) -> ast.Module | None:
    """Parse a callable's module; return None if the source cannot be read or parsed."""
    try:
        return _parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=8)
def _parse(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # Of escapes in strings, which the import gives again.
        warnings.simplefilter("ignore")
        return ast.parse(text)


def digest_file(path: Path) -> str:
    """Return the digest ``sha256:…`` of the bytes of a file, such as a callable's source."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _in_directories(search: Sequence[Path], name: str) -> Module | None:
    portions = []
    for directory in search:
        package = directory / name
        if package.is_dir():
            for suffix in _SUFFIXES:
                if (file := package / f"__init__{suffix}").is_file():
                    return Module(file, (package,))
        for suffix in _SUFFIXES:
            if (file := directory / f"{name}{suffix}").is_file():
                return Module(file)
        if package.is_dir():
            portions.append(package)
    return Module(None, tuple(portions)) if portions else None


def _installed(top: str) -> Module | None:
    # Only of the top package: looking up a module inside it would import it.
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        # The latter for a module without a spec, such as __main__.
        return None if sys.modules.get(top) is None else Module(None)
    if spec is None:
        return None
    search = tuple(Path(one) for one in spec.submodule_search_locations or ())
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    archive = getattr(spec.loader, "archive", None)
    if file is not None and not file.is_file():
        file = Path(archive) if archive else None
    return Module(file, search)
