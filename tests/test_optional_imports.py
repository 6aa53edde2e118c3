"""Check that tests import optional packages, such as Ray, only where that is guarded.

What a fresh clone has is what ``pyproject.toml`` declares for the package and for development,
with what these require; a package that happens to be installed here is optional nevertheless.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What is imported by scripts that ``make test`` does not start.
_NOT_COLLECTED = ("tests/benchmarks/", "tests/support/ported/")
# Its fixture starts Ray for the cases of the session of that name only.
_GUARDED = "tests/conformance/conftest.py"
# Modules of later versions of Python than the oldest that is supported.
_LATER_IN_PYTHON = {"annotationlib"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement(text: str) -> str:
    match = _NAME.match(text)
    assert match is not None
    return _normalized(match[0])


@cache
def _declared() -> frozenset[str]:
    """Distributions that a fresh clone installs, with what they require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    waiting = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    known: set[str] = set()
    while waiting:
        name = _requirement(waiting.pop())
        if name in known:
            continue
        known.add(name)
        try:
            required = requires(name) or []
        except PackageNotFoundError:
            continue
        waiting += [text for text in required if "extra ==" not in text]
    return frozenset(known)


@cache
def _providers() -> dict[str, list[str]]:
    return dict(packages_distributions())


@cache
def _is_optional(package: str) -> bool:
    if package in sys.stdlib_module_names | _LATER_IN_PYTHON | {"jobrun", "tests"}:
        return False
    providers = _providers().get(package, [package])
    return not _declared() & set(map(_normalized, providers))


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module, *(f"{module}.{alias.name}" for alias in node.names)]
        case _:
            return []


def _imports_on_load(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module imports as it is loaded: not in functions, nor for type checkers."""
    for node in body:
        yield from _imported(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports_on_load(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef | ast.For):
            yield from _imports_on_load(list(ast.iter_child_nodes(node)))  # type: ignore[arg-type]


@cache
def _loaded(file: Path) -> frozenset[str]:
    return frozenset(_imports_on_load(ast.parse(file.read_text()).body))


def _with_packages(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def _optional_by_module() -> dict[str, set[str]]:
    """Return by module which optional packages loading it imports, itself or through others."""
    files = [*ROOT.glob("jobrun/**/*.py"), *ROOT.glob("tests/**/*.py")]
    optional: dict[str, set[str]] = {}
    importers: dict[str, set[str]] = {}
    for file in files:
        for name in _loaded(file):
            for part in _with_packages(name):
                importers.setdefault(part, set()).add(_module(file))
            if _is_optional(top := name.partition(".")[0]):
                optional.setdefault(_module(file), set()).add(top)
    waiting = list(optional)
    while waiting:
        name = waiting.pop()
        for importer in importers.get(name, ()):
            packages = optional.setdefault(importer, set())
            if not optional[name] <= packages:
                packages |= optional[name]
                waiting.append(importer)
    return optional


def _optional_packages(name: str) -> set[str]:
    """Return the optional packages that the import of a name needs."""
    top = name.partition(".")[0]
    modules = [_optional_by_module().get(part, set()) for part in _with_packages(name)]
    return set().union({top} if _is_optional(top) else (), *modules)


def _is_guard(node: ast.AST) -> bool:
    """Return whether a decorator, statement or call keeps code from ``make test`` or skips it."""
    text = ast.unparse(node)
    return "importorskip" in text or "mark.long" in text or "mark.gpu" in text


def _imports_in_functions(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of what unguarded tests and fixtures of a module import."""
    if any(_is_guard(node) for node in module.body if isinstance(node, ast.Assign)):
        return
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef) or _is_guard(function):
            continue
        is_test = function.name.startswith("test_")
        if is_test or any(
            "fixture" in ast.unparse(decorator) for decorator in function.decorator_list
        ):
            for node in ast.walk(function):
                yield from ((function.lineno, name) for name in _imported(node))


def _test_modules() -> list[Path]:
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/**/conftest.py")]
    return [path for path in files if not str(path.relative_to(ROOT)).startswith(_NOT_COLLECTED)]


def test_collecting_the_tests_imports_no_optional_package():
    needed = {_module(path): _optional_by_module().get(_module(path)) for path in _test_modules()}

    assert {module: packages for module, packages in needed.items() if packages} == {}


def test_tests_and_fixtures_import_optional_packages_only_where_they_are_guarded():
    unguarded = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in _test_modules()
        if path != ROOT / _GUARDED
        for line, name in _imports_in_functions(ast.parse(path.read_text()))
        if _optional_packages(name)
    ]

    assert unguarded == []
