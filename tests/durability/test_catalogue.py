"""Each row of the catalogue is shown by a test that exists, or says why not."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.durability.catalogue import ROWS
from tests.support.tables import each_case

TESTS = Path(__file__).parent.parent


@cache
def _functions(module: str) -> frozenset[str]:
    tree = ast.parse((TESTS / f"{module}.py").read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_row_is_there():
    assert list(ROWS) == list(range(1, 86))


@each_case("number", ROWS)
def test_tests_of_the_catalogue_exist(number):
    missing = [
        test
        for test in ROWS[number].tests
        if test.partition("::")[2] not in _functions(test.partition("::")[0])
    ]
    assert missing == []


def test_row_without_a_test_has_a_reason():
    assert [number for number, row in ROWS.items() if not (row.tests or row.partly)] == []


def test_nothing_unpickles_or_evaluates():
    """No pickle and no numpy file that may hold one; code is made of specs in one module alone.

    Another one compares a value with its pickle of a moment ago, which never leaves the process.
    """
    uses = []
    for path in sorted((TESTS.parent / "jobrun").rglob("*.py")):
        text = path.read_text()
        if not any(word in text for word in ("eval", "exec", "pickle", "np.load")):
            continue
        for node in ast.walk(ast.parse(text)):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            allowed = {word.arg: ast.unparse(word.value) for word in getattr(node, "keywords", ())}
            if name in {"eval", "pickle.loads", "pickle.load", "np.load"} and (
                allowed.get("allow_pickle") != "False"
            ):
                uses.append(f"{path.name}: {name}")
            if name == "exec":
                uses.append(f"{path.relative_to(TESTS.parent)}: exec")
    allowed_uses = ("jobrun/runtime/codegen/compiler.py", "change_detection.py: pickle.loads")
    assert [text for text in uses if not text.startswith(allowed_uses)] == []
