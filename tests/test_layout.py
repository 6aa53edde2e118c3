"""Check what a reader may rely on about the tree: top level, nothing unfinished."""

from __future__ import annotations

import re
from pathlib import Path

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
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    extra = {name for name in found - TOP_LEVEL - LEFT_BY_TOOLS if not name.endswith(".egg-info")}
    assert extra == set()
    assert found >= TOP_LEVEL


def test_nothing_is_left_unfinished():
    marks = {_named(path): UNFINISHED.findall(path.read_text()) for path in MODULES}
    assert {name: found for name, found in marks.items() if found} == {}


def test_no_module_of_the_working_directory_is_imported_by_processes_that_are_started():
    # 'python -m' and 'python -c' look there first, without -P or -I.
    started = {_named(path): PYTHON.findall(path.read_text()) for path in MODULES}

    options = [(name, option) for name, found in started.items() for option in found]
    assert len(options) > 5
    assert [one for one in options if one[1] not in ("-P", "-I")] == []
