"""Digest all user code that decides a job's result, following its imports without executing them.

Decided from the text alone, so that it is the same before a run and before each resume, and in
every session: what the modules of the called functions import, however deep, inside functions
too. What is only loaded at some point of a run would come too late to be compared.

- A module that is not installed (beside the spec, on ``PYTHONPATH``, an editable install) counts
  with the digest of its file: Python source, a compiled extension, bytecode, an archive.
- One that is installed counts with the version of its distribution, and so does what that requires.
- The standard library counts with Python's version.

An import of a computed name counts as an import of every module that it may mean.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import marshal
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from types import CodeType
from typing import Any

from msgspec import Struct, field

from jobrun.core.files.digest import digest_bytes, digest_file
from jobrun.graph.expressions import Call
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import CallPython, RunProgram
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import Job
from jobrun.ops.operator_table import has_loaded, module_of
from jobrun.runner.identity.data_fingerprints import literal_text
from jobrun.runner.identity.environment import find_versions
from jobrun.runtime.context.imported_code import INSTALLED

# jobrun itself is not digested: its version is recorded.
_OWN = "jobrun"
_BYTECODE_HEADER_BYTES = 16
_SCRIPTS = frozenset({".bash", ".jl", ".m", ".pl", ".py", ".r", ".rb", ".sh"})
# Functions that import a module by name, and by the path of its file.
_IMPORTS = frozenset({"import_module", "__import__"})
_PATH_IMPORTS = frozenset(
    {"spec_from_file_location", "SourceFileLoader", "SourcelessFileLoader", "run_path"}
)
# In the order in which Python searches.
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)


class CodeDigests(Struct):
    """The digests of all code of a job.

    Attributes:
        sources: ``sha256:…`` by ``module:function`` for each callable, by module for what they
            import, by ``./path`` for scripts beside the spec.
        packages: The versions of the distributions they import, by name.
        files: The digests of modules by the real path of their files, with which imports are
            compared; not recorded.
    """

    sources: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def digest_code(job: Job, folder: Path) -> CodeDigests:
    """Digest the code of every callable, reader, program and plug-in operator of a job.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
    """
    walk = _ImportWalker()
    scripts: dict[str, str] = {}
    for step in iter_steps(job):
        if isinstance(step, CallPython):
            base = folder / step.folder
            module = step.target.partition(":")[0]
            walk.follow(module, base, shown=step.target)
        elif isinstance(step, RunProgram):
            scripts |= _digest_scripts(step, folder / step.folder, walk)
    for module in _operator_modules(job):
        walk.follow(module, folder)
    sources = {**walk.sources, **scripts}
    versions, orphans = find_versions(walk.installed)
    packages = versions | {name: digest_file(path) for name, path in orphans.items()}
    return CodeDigests(dict(sorted(sources.items())), dict(sorted(packages.items())), walk.files)


class Source(Struct, frozen=True):
    """The file of a callable's module.

    Attributes:
        path: A Python file, a compiled extension, bytecode without source, or the archive that
            holds it; None for a module that has no file (built in, or a namespace package).
        digest: ``sha256:…`` of the file; empty without one.
    """

    path: Path | None
    digest: str = ""


class Module(Struct, frozen=True):
    """Where a module would be imported from.

    Attributes:
        file: As ``Source.path``.
        search: For a package: the directories that hold its modules.
    """

    file: Path | None
    search: tuple[Path, ...] = ()


class _ImportWalker:
    """Follows the imports of a job's code.

    Attributes:
        sources: Digests by module, of what is not installed.
        installed: The files of modules that are.
        files: Digests by the real path of the file, of what is not installed.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.installed: set[Path] = set()
        self._seen: set[tuple[str, Path]] = set()

    def add(self, name: str, digest: str) -> None:
        """Add the digest of a source file to the job's code digests, under the file's name."""
        known = self.sources.get(name)
        if known not in (None, digest):
            # Modules of the same name in two folders of included files.
            both = "".join(sorted((known, digest)))
            digest = digest_bytes(both.encode())
        self.sources[name] = digest

    def follow(self, module: str, base: Path, *, shown: str = "", only_below: bool = False) -> None:
        """Add a module, its parent packages and all that they import to the digested code.

        Args:
            module: Its name.
            base: Where it is looked for first.
            shown: The name of the module itself in ``sources``, if it is not its own.
            only_below: Leave out what is not in ``base``: another interpreter may run it.
        """
        waiting = list(_with_packages(module))
        while waiting:
            name = waiting.pop()
            if (name, base) in self._seen:
                continue
            self._seen.add((name, base))
            location = self._locate(name, base, only_below=only_below)
            if location is not None and location.file is not None:
                digest = self.files[os.path.realpath(location.file)] = digest_file(location.file)
                self.add(shown if shown and name == module else name, digest)
                waiting += self._imports(name, location, base)
        if shown and shown not in self.sources:
            # The module was followed before, for another callable.
            location = self._locate(module, base, only_below=only_below)
            if location is not None and location.file is not None:
                self.add(shown, digest_file(location.file))

    def _locate(self, name: str, base: Path, *, only_below: bool) -> Module | None:
        """Find a module to digest; return None if it is Python's or an installed package's."""
        location = find_module(name, base)
        if location is None or location.file is None or location.file.is_relative_to(base):
            return location
        top = name.partition(".")[0]
        if only_below or top == _OWN or top in sys.stdlib_module_names:
            return None
        if _is_installed(location.file):
            self.installed.add(location.file)
            return None
        return location

    def _imports(self, name: str, location: Module, base: Path) -> Iterator[str]:
        file = location.file
        if file is None:
            return
        try:
            data = file.read_bytes()
        except OSError:
            return
        is_package = file.name.partition(".")[0] == "__init__"
        imports = _imports_of(data, name, is_package, file.suffix)
        yield from (part for imported in imports.names for part in _with_packages(imported))
        for prefix in imports.computed:
            yield from _list_candidates(prefix, name, base)


def _list_candidates(prefix: str, name: str, base: Path) -> Iterator[str]:
    """Yield all modules that an import with a computed name may load, to digest their code."""
    package = prefix or name.partition(".")[0]
    location = find_module(package, base)
    if location is None or (location.file is not None and _is_installed(location.file)):
        return
    if location.search:
        yield from list_modules(location.search, package)
    else:
        yield from list_modules((base,))


class _Imports(Struct, frozen=True):
    """What a module's text imports.

    Attributes:
        names: Full names that may be modules.
        computed: For each import of a computed name, the package it begins with, or nothing.
    """

    names: tuple[str, ...]
    computed: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def _imports_of(data: bytes, module: str, is_package: bool, suffix: str) -> _Imports:
    package = module if is_package else module.rpartition(".")[0]
    if suffix == ".pyc":
        return _Imports(tuple(_bytecode_imports(data, package)))
    if suffix != ".py":
        return _Imports(())
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        # A syntax error: the import reports where.
        return _Imports(())
    names: list[str] = []
    computed: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node.module or "", node.level)
            # A name imported from a package may be one of its modules.
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and _name_of(node.func) in _PATH_IMPORTS:
            computed.append("")
        elif isinstance(node, ast.Call) and _name_of(node.func) in _IMPORTS and node.args:
            literal, prefix = _import_argument(node.args[0], package)
            names += [literal] if literal else []
            computed += [] if literal else [prefix]
    return _Imports(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(computed)))


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _name_of(function: ast.expr) -> str:
    """Return the last name of a called function: ``f`` of ``module.f``."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _import_argument(argument: ast.expr, package: str) -> tuple[str, str]:
    """Return the module, or at least its package, that an ``import_module(…)`` call names."""
    match argument:
        case ast.Constant(value=str() as text):
            level = len(text) - len(text.lstrip("."))
            return _absolute(package, text.lstrip("."), level), ""
        case (
            ast.JoinedStr(values=[ast.Constant(value=str() as text), *_])
            | ast.BinOp(left=ast.Constant(value=str() as text))
            | ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text)))
        ):
            begin = re.split(r"[%{]", text)[0]
            level = len(begin) - len(begin.lstrip("."))
            return "", _absolute(package, begin.lstrip(".").rpartition(".")[0], level)
        case _:
            return "", ""


def _absolute(package: str, name: str, level: int) -> str:
    if not level:
        return name
    parts = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join(part for part in (*parts, name) if part)


def _bytecode_imports(data: bytes, package: str) -> Iterator[str]:
    try:
        waiting = [marshal.loads(data[_BYTECODE_HEADER_BYTES:])]  # noqa: S302 - what would be run
    except (EOFError, ValueError, TypeError):
        return
    while waiting:
        code = waiting.pop()
        if not isinstance(code, CodeType):
            continue
        waiting += code.co_consts
        base = ""
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME":
                base = str(instruction.argval)
                yield from (base, f"{package}.{base}")
            elif instruction.opname == "IMPORT_FROM":
                yield from (
                    f"{base}.{instruction.argval}",
                    f"{package}.{base}.{instruction.argval}",
                )
                yield f"{package}.{instruction.argval}"


def _with_packages(name: str) -> Iterator[str]:
    parts = name.strip(".").split(".")
    for count in range(1, len(parts) + 1):
        if all(part.isidentifier() for part in parts[:count]):
            yield ".".join(parts[:count])


def _operator_modules(job: Job) -> list[str]:
    """Return the modules of plug-in operators that the job uses, to digest their code."""
    calls: Any = Call
    names = {call.function for call in find_parts(job.groups, calls)} if has_loaded() else ()
    return sorted({module for name in names if (module := module_of(name))})


def _digest_scripts(step: RunProgram, folder: Path, walk: _ImportWalker) -> dict[str, str]:
    """Digest the scripts that a step starts a program with, and modules that they import."""
    texts = [text for word in step.command if (text := literal_text(word))]
    words = [word for text in texts for word in _shell_words(text)] if step.shell else texts
    digests = digest_scripts(words, folder)
    for name, digest in digests.items():
        path = folder / name
        walk.files[os.path.realpath(path)] = digest
        if path.suffix.lower() == ".py":
            walk.follow(path.stem, path.parent, shown=name, only_below=True)
    return digests


def _shell_words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def find_source(module: str, folder: Path) -> Source | None:
    """Find the source file of a callable, importing nothing; return it with its digest.

    Returns:
        None when there is no such module.
    """
    location = find_module(module, folder)
    if location is None:
        return None
    if location.file is None:
        return Source(None)
    return Source(location.file, digest_file(location.file))


def find_module(module: str, folder: Path) -> Module | None:
    """Find the file of a module to digest, without importing it; return None if missing.

    The search is Python's: a regular package or a file in the folder, then what ``sys.path`` and
    the finders of editable installs know, then namespace packages.
    """
    top, *names = module.split(".")
    location = _in_directories((folder,), top)
    if location is None or location.file is None:
        installed = _installed(top)
        if location is None or (installed is not None and installed.file is not None):
            location = installed
        elif installed is not None:
            location = Module(None, (*location.search, *installed.search))
    for part in names:
        if location is None:
            return None
        location = _in_directories(location.search, part)
    return location


def list_modules(search: Sequence[Path], name: str = "") -> dict[str, Path]:
    """List the source files of all modules in a package of user code, by module name.

    Args:
        search: The directories.
        name: The name of the package; empty for modules that are in none, of which only those
            directly in the directories count.
    """
    modules: dict[str, Path] = {}
    waiting = [(Path(root), name) for root in search]
    while waiting:
        directory, package = waiting.pop()
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            stem = path.name.partition(".")[0]
            suffix = path.name[len(stem) :]
            if path.is_dir() and package and path.name.isidentifier():
                waiting.append((path, f"{package}.{path.name}"))
            elif suffix in _SUFFIXES and stem.isidentifier():
                full = ".".join(part for part in (package, stem) if part and part != "__init__")
                modules.setdefault(full, path)
    return modules


def digest_scripts(words: Iterable[str], folder: Path) -> dict[str, str]:
    """Digest the scripts that a program's command line names; return digests by path."""
    digests: dict[str, str] = {}
    for word in words:
        path = folder / word
        inside = not Path(word).is_absolute() and ".." not in Path(word).parts
        if inside and path.suffix.lower() in _SCRIPTS and path.is_file():
            digests[f"./{Path(word)}"] = digest_file(path)
    return digests


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
    # Only the top package: ``find_spec`` of a module inside it would import the package.
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        # ValueError: the loaded module has no ``__spec__``, such as ``__main__``.
        return None if sys.modules.get(top) is None else Module(None)
    if spec is None:
        return None
    search = tuple(Path(location) for location in spec.submodule_search_locations or ())
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    archive = getattr(spec.loader, "archive", None)
    if file is not None and not file.is_file():
        file = Path(archive) if archive else None
    return Module(file, search)


def _is_installed(path: Path | None) -> bool:
    """Return whether a file is part of an installed package, which is not digested."""
    return path is not None and not INSTALLED.isdisjoint(path.parts)
