"""Check that the maps of the house name only what exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAPS = {"jobrun/README.md": ROOT / "jobrun", "tests/README.md": ROOT / "tests"}
# ``folder/``, ``folder/module.py``, ``module.py:function``, ``module.py:Class.method``.
NAMED = re.compile(r"`((?:[\w.]+/)*(?:[\w]+\.\w+|[\w]+/))(?::([\w.]+))?`")
FOLDERS_OF_HELPERS = ("support", "property", "durability")


@cache
def _definitions(path: Path) -> frozenset[str]:
    names = set[str]()

    def go(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                go(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign):
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)

    go(ast.parse(path.read_text()).body, "")
    return frozenset(names)


def _missing(text: str, base: Path) -> list[str]:
    missing = []
    for path, name in NAMED.findall(text):
        places = [
            base / path,
            ROOT / path,
            *(base / folder / path for folder in FOLDERS_OF_HELPERS),
        ]
        path_ = next((candidate for candidate in places if candidate.exists()), None)
        if path_ is None or (name and name not in _definitions(path_)):
            missing.append(f"{path}:{name}")
    return missing


@pytest.mark.parametrize("name", MAPS)
def test_each_path_and_name_of_a_map_exists(name):
    text = (ROOT / name).read_text()
    assert len(NAMED.findall(text)) > 20
    missing = _missing(text, MAPS[name])
    assert not missing, (
        f"{name} names what does not exist (path:name); write where it is now, or delete the "
        "words about it:\n" + "\n".join(missing)
    )


def test_a_name_that_does_not_exist_is_found():
    base = ROOT / "tests"
    assert _missing("`support/nothing.py`", base) == ["support/nothing.py:"]
    assert _missing("`support/house.py:modules` `support/house.py:gone`", base) == [
        "support/house.py:gone"
    ]


@pytest.mark.parametrize("name", MAPS)
def test_each_folder_is_on_its_map(name):
    text = (ROOT / name).read_text()
    folders = {
        path.parent.relative_to(MAPS[name]).parts[0]
        for path in MAPS[name].rglob("*.*")
        if path.parent != MAPS[name] and path.suffix != ".pyc"
    }
    unlisted = {
        folder for folder in folders if f"`{folder}/" not in text and f" {folder}/" not in text
    }
    assert not unlisted, f"add to {name} what these folders are for: {sorted(unlisted)}"
