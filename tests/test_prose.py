"""Check how the package is written: first sentences, and words that hide what is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jobrun"
MODULES = sorted(PACKAGE.rglob("*.py"))
TEXTS = sorted([*MODULES, *PACKAGE.rglob("*.md")])

# Each has a plain word in its place: report, is, continue, who, no one, again, obey, altogether.
AVOIDED = re.compile(
    r"\b(told|tells|stands|stood|goes on|whoever|nobody|somebody|anew|heed|in all|so long)\b"
)
# The first word of a function's docstring: what it does, to be continued by an object.
VERBS = frozenset((Path(__file__).parent / "support/verbs.txt").read_text().split())


def _functions(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of each function that is no property."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            is_property = any(
                "property" in ast.unparse(decorator) for decorator in node.decorator_list
            )
            if text and not is_property:
                yield node.lineno, node.name, text


def _named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _without_verb(paths: list[Path]) -> list[str]:
    return [
        f"{_named(path)}:{line} {name}: {text.splitlines()[0]}"
        for path in paths
        for line, name, text in _functions(path)
        if text.split()[0].strip(".,:;") not in VERBS
    ]


def test_docstrings_of_functions_begin_with_a_verb():
    assert _without_verb(MODULES) == []


def _declared_above(name: str, bases: dict[str, ast.ClassDef]) -> set[str] | None:
    """Return the methods that classes above a class declare; None if one of them is foreign."""
    declared: set[str] = set()
    above, seen = [name], {name}
    while above:
        for base in bases[above.pop()].bases:
            base_name = ast.unparse(base).split("[")[0].rpartition(".")[2]
            if base_name not in bases:
                return None
            if base_name not in seen:
                seen.add(base_name)
                above.append(base_name)
                declared |= {each.name for each in bases[base_name].body if hasattr(each, "name")}
    return declared


def _undocumented(paths: list[Path]) -> list[str]:
    trees = {path: ast.parse(path.read_text()) for path in paths}
    bases = {
        definition.name: definition
        for tree in trees.values()
        for definition in tree.body
        if isinstance(definition, ast.ClassDef)
    }
    missing = []
    for path, tree in trees.items():
        public: list[tuple[str, ast.FunctionDef | ast.ClassDef]] = []
        for definition in tree.body:
            if isinstance(definition, ast.FunctionDef | ast.ClassDef):
                public.append((definition.name, definition))
            if isinstance(definition, ast.ClassDef) and not definition.name.startswith("_"):
                above = _declared_above(definition.name, bases)
                public += [
                    (each.name, each)
                    for each in definition.body
                    if isinstance(each, ast.FunctionDef) and above is not None
                    if each.name not in above
                ]
        missing += [
            f"{_named(path)}:{definition.lineno} {name}"
            for name, definition in public
            if not name.startswith(("_", "test_"))
            and not ast.get_docstring(definition)
            and "overload" not in map(ast.unparse, definition.decorator_list)
        ]
    return missing


def test_all_that_is_public_has_a_docstring():
    assert _undocumented(MODULES) == []


def test_a_function_a_class_and_a_method_without_docstring_are_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "bare.py"
    path.write_text(
        "def one(): pass\nclass Two:\n    def three(self): pass\n    def _four(self): pass\n"
        "class Five(Two):\n    'A five.'\n    def three(self): pass\n"
    )

    assert _undocumented([path]) == ["bare.py:1 one", "bare.py:2 Two", "bare.py:3 three"]


def test_avoided_words_do_not_occur():
    lines_with_them = [
        f"{_named(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if AVOIDED.search(line)
    ]
    assert lines_with_them == []


def test_a_docstring_without_a_verb_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """The number of rows."""\n')
    assert _without_verb([path]) == ["module.py:1 f: The number of rows."]
