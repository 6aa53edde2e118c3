"""What a reader may rely on about the tree: where tests are, how long things get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jobrun"
TESTS = ROOT / "tests"

TOP_LEVEL = {
    "LICENSE", "Makefile", "README.md", "jobrun", "pyproject.toml", "schemas", "specs", "tests",
}  # fmt: skip
# What git ignores and a build leaves.
LEFT_BY_TOOLS = {"build", "dist", "runs"}
MOST_LINES = 400
MOST_BODY_LINES = 40
# The catalogue is tested as a whole by test_codes; a version number needs no test.
WITHOUT_TEST = {"version.py"} | {f"core/codes/{path.name}" for path in PACKAGE.glob("core/codes/*")}
# Tests of what no single module does.
WITHOUT_MODULE = {
    "cli/test_rows.py", "spec/test_rows.py", "test_code_examples.py", "test_codes.py",
    "test_doctests.py", "test_layout.py",
}  # fmt: skip
NOT_MIRRORED = {
    "adversarial",
    "durability",
    "e2e",
    "benchmarks",
    "support",
    "conformance",
    "property",
    "typing",
}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|NotImplemented" r"Error")

MODULES = sorted(PACKAGE.rglob("*.py"))


def _named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_each_module_has_its_test_module():
    wanted = {
        path.parent / f"test_{path.stem.strip('_')}.py"
        for path in (module.relative_to(PACKAGE) for module in MODULES)
        if path.name != "__init__.py" and path.as_posix() not in WITHOUT_TEST
    }
    missing = sorted(str(path) for path in wanted if not (TESTS / path).is_file())
    assert missing == []


def test_each_test_module_has_its_module():
    strays = []
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS)
        if place.parts[0] in NOT_MIRRORED or place.as_posix() in WITHOUT_MODULE:
            continue
        stem = place.stem.removeprefix("test_")
        names = (f"{stem}.py", f"__{stem}__.py")
        if not any((PACKAGE / place.parent / name).is_file() for name in names):
            strays.append(place.as_posix())
    assert strays == []


def test_the_top_level_holds_only_what_was_agreed():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    extra = {name for name in found - TOP_LEVEL - LEFT_BY_TOOLS if not name.endswith(".egg-info")}
    assert extra == set()
    assert found >= TOP_LEVEL


def test_modules_are_short():
    lengths = {_named(path): path.read_text().count("\n") for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_each_module_says_what_it_is():
    silent = [
        _named(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_functions_are_short():
    long = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > MOST_BODY_LINES:
                    long.append(f"{_named(path)}:{node.lineno} {node.name} ({lines})")
    assert long == []


def _public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods that others may call; what stands inside a function is its own."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _public(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node


def test_public_things_have_docstrings():
    silent = [
        f"{_named(path)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in _public(ast.parse(path.read_text()).body)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_nothing_is_left_unfinished():
    marks = {_named(path): UNFINISHED.findall(path.read_text()) for path in MODULES}
    assert {name: found for name, found in marks.items() if found} == {}
