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
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
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


def test_avoided_words_do_not_occur():
    found = [
        f"{_named(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if AVOIDED.search(line)
    ]
    assert found == []


def test_a_docstring_without_a_verb_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """The number of rows."""\n')
    assert _without_verb([path]) == ["module.py:1 f: The number of rows."]
