"""Check what a reader may rely on about the tree: top level, nothing unfinished."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.house import EmptyNames, identifiers

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jobrun"

TOP_LEVEL = {
    "LICENSE", "Makefile", "README.md", "jobrun", "pyproject.toml", "schemas", "specs", "tests",
}  # fmt: skip
# What git ignores and a build leaves.
LEFT_BY_TOOLS = {"build", "dist", "runs"}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|NotImplemented" r"Error")

# The first option of Python where it is started with a module or a program.
PYTHON = re.compile(r'sys\.executable, (?:\*[\w.()]+, )?"(-\w)"')
MODULES = sorted(PACKAGE.rglob("*.py"))


def _named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_the_top_level_holds_only_what_was_agreed():
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    extra = {name for name in names - TOP_LEVEL - LEFT_BY_TOOLS if not name.endswith(".egg-info")}
    assert extra == set()
    assert names >= TOP_LEVEL


def test_nothing_is_left_unfinished():
    marks = {_named(path): UNFINISHED.findall(path.read_text()) for path in MODULES}
    assert {name: unfinished for name, unfinished in marks.items() if unfinished} == {}


# Of these, a dtype is a name: a text.
_DTYPES_ARE_TEXT = {"compile", "graph", "ops", "spec"}


def test_dtypes_that_may_be_none_are_not_compared_by_equality():
    # numpy.dtype("float64") == None is true, and metadata do not count: ``same_dtype`` is for that.
    assert [
        f"{path.relative_to(ROOT)}:{line}"
        for path in MODULES
        if not _DTYPES_ARE_TEXT.intersection(path.parts) or path.name == "numpy_implementations.py"
        for line in _compared_dtypes(path.read_text())
    ] == []


def test_comparison_of_a_dtype_that_may_be_none_is_found():
    assert _compared_dtypes("same = dtype is old.dtype or dtype == old.dtype") == [1]
    assert _compared_dtypes("same = dtypes[0] != x") == [1]
    assert _compared_dtypes("same = x.dtype == np.bool_") == []


def _compared_dtypes(text: str) -> list[int]:
    """The lines that compare a variable called dtype by equality."""
    comparisons = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Compare))
    return [
        node.lineno
        for node in comparisons
        if any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        and any(map(_is_variable_dtype, (node.left, *node.comparators)))
    ]


def _is_variable_dtype(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value).endswith("dtypes")
    return isinstance(node, ast.Name) and node.id.endswith("dtype")


def test_no_module_of_the_working_directory_is_imported_by_processes_that_are_started():
    # 'python -m' and 'python -c' look there first, without -P or -I.
    started = {_named(path): PYTHON.findall(path.read_text()) for path in MODULES}

    options = [
        (name, option) for name, found_options in started.items() for option in found_options
    ]
    assert len(options) > 5
    assert [pair for pair in options if pair[1] not in ("-P", "-I")] == []


# The share of identifiers that say nothing of what they hold, in percent. The aim is 0.3 in both;
# lower a limit as soon as its folder allows it.
MOST_EMPTY_NAMES = {"jobrun": 1.6, "tests": 3.7}


@pytest.mark.parametrize("folder", MOST_EMPTY_NAMES)
def test_identifiers_say_what_they_hold(folder):
    empty = EmptyNames.below(ROOT / folder)

    assert empty.percent <= MOST_EMPTY_NAMES[folder], (
        f"{empty.percent:.2f} % of the identifiers in {folder}/ say nothing; most are in\n"
        f"{empty.describe()}"
    )


def test_identifiers_are_those_of_a_module_and_not_of_a_library():
    text = "from hypothesis import given\n@given(one=1)\ndef kept(made): found.place = f'{told}'\n"

    assert sorted(identifiers(text)) == ["found", "kept", "made", "one", "place", "told"]
