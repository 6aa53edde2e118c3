"""The examples in docstrings do what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "jobrun"


def _modules() -> list[str]:
    """The modules that have examples, by reading: the others need not be imported."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            names.append(".".join(part for part in parts if part != "__init__"))
    return names


@pytest.mark.parametrize("name", _modules())
def test_examples_of_a_module_hold(name):
    failed, tried = doctest.testmod(import_module(name))
    assert tried
    assert failed == 0


def test_the_package_itself_has_examples():
    assert {"jobrun", "jobrun.api", "jobrun.graph.group_transforms"} <= set(_modules())
