"""The source of callables ``module:function``: found, looked into and hashed; never imported."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path


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
    return Source(path, f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


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
