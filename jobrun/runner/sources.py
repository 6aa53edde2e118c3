"""The source of callables ``module:function``: found, looked into and hashed; never imported."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = frozenset({".bash", ".jl", ".m", ".pl", ".py", ".r", ".rb", ".sh"})


@dataclass(frozen=True, slots=True)
class Source:
    """The file of a callable's module.

    Attributes:
        path: None for a module that has no Python file (built in, or compiled).
        digest: ``sha256:…`` of the file; empty without one.
    """

    path: Path | None
    digest: str = ""


def find_source(module: str, folder: Path) -> Source | None:
    """Where a module would be imported from: the folder first, then the installed packages.

    Returns:
        None when there is no such module.
    """
    parts = module.split(".")
    path = _in_folder(folder, parts)
    if path is None:
        found = _installed(parts)
        if found is None or isinstance(found, Source):
            return found
        path = found
    return Source(path, _digest(path))


def imported_sources(source: Source, module: str, folder: Path) -> dict[str, str]:
    """``sha256:…`` of the modules in ``folder`` that a module imports, and those import, by name.

    Installed packages are told apart by their versions, not here. Imports inside functions
    count; those by a computed name cannot be seen.

    Args:
        source: That of the module.
        module: Its name.
        folder: The spec's folder.
    """
    found: dict[str, str] = {}
    waiting = [(module, source.path)]
    while waiting:
        name, path = waiting.pop()
        for other in _imports(name, path):
            place = None if other in found or other == module else _in_folder(
                folder, other.split(".")
            )  # fmt: skip
            if place is not None:
                found[other] = _digest(place)
                waiting.append((other, place))
    return found


def script_digests(words: Iterable[str], folder: Path) -> dict[str, str]:
    """``sha256:…`` of the scripts among the words of a command that are in ``folder``."""
    found: dict[str, str] = {}
    for word in words:
        path = folder / word
        inside = not Path(word).is_absolute() and ".." not in Path(word).parts
        if inside and path.suffix.lower() in _SCRIPTS and path.is_file():
            found[f"./{Path(word)}"] = _digest(path)
    return found


def defines(path: Path, name: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a module's file may define ``name``, and the functions and classes it has.

    Says yes where that cannot be told from the text alone.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        # Importing it will say where; that is the better message.
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


def _digest(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _imports(module: str, path: Path | None) -> Iterator[str]:
    """Every module that a file may import, and the packages around it, by full name."""
    if path is None:
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(package, node)
            # What is imported from a package may be a module of it.
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for name in names:
            yield from _with_packages(name.strip("."))


def _base(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        if all(part.isidentifier() for part in parts[:count]):
            yield ".".join(parts[:count])


def _in_folder(folder: Path, parts: list[str]) -> Path | None:
    base = folder.joinpath(*parts)
    for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if path.is_file():
            return path
    return None


def _installed(parts: list[str]) -> Path | Source | None:
    """The module's file, a source without one, or None.

    Only the top package is looked up: looking up a module inside it would import it.
    """
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if len(parts) == 1:
        return _file(spec.origin)
    for location in spec.submodule_search_locations or ():
        path = _in_folder(Path(location), parts[1:])
        if path is not None:
            return path
        parent = Path(location).joinpath(*parts[1:-1])
        if any(parent.glob(f"{parts[-1]}.*.so")):
            return Source(None)
    return None


def _file(origin: str | None) -> Path | Source:
    path = Path(origin or "")
    return path if path.suffix == ".py" and path.is_file() else Source(None)
