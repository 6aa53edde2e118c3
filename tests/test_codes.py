"""The catalogue of error codes and the source agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobrun.cli.app import COMMANDS
from jobrun.core.codes import catalogue, checkpoint, runner, runtime, spec, usage
from jobrun.core.codes import compile as compile_codes

PACKAGE = Path(__file__).parent.parent / "jobrun"
CODE = re.compile(r"[EW]\d{3}")
COMMAND = re.compile(r"'jobrun ([a-z][a-z-]+)")
LAYERS = {
    "spec": (spec, 0, 100),
    "compile": (compile_codes, 100, 200),
    "runtime": (runtime, 200, 300),
    "checkpoint": (checkpoint, 300, 350),
    "runner": (runner, 350, 400),
    "usage": (usage, 400, 450),
}


def _texts(catalogue_too: bool = False) -> Iterator[tuple[str, str]]:
    """Place and value of each text constant, the parts of f-strings among them."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "codes" in path.parts and not catalogue_too:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value


def test_every_code_in_the_source_is_in_the_catalogue():
    known = catalogue()
    unknown = [
        f"{place} {text}" for place, text in _texts() if CODE.fullmatch(text) and text not in known
    ]
    assert unknown == []


def test_every_code_of_the_catalogue_is_used():
    used = {text for _, text in _texts() if CODE.fullmatch(text)}
    assert sorted(set(catalogue()) - used) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_keeps_to_its_range(layer):
    module, first, end = LAYERS[layer]
    outside = [
        code for code in module.CODES
        if (code[0] == "E" and not first <= int(code[1:]) < end)
        or (code[0] == "W" and not 100 <= int(code[1:]) < 200)
    ]  # fmt: skip
    assert outside == []


def test_no_code_is_given_twice():
    assert sum(len(module.CODES) for module, _, _ in LAYERS.values()) == len(catalogue())


@pytest.mark.parametrize("code", catalogue())
def test_each_entry_explains(code):
    entry = catalogue()[code]
    assert entry.title
    assert not entry.title.endswith(".")
    assert len(entry.explanation) > 20
    assert entry.explanation.rstrip().endswith((".", ":", ")"))
    assert entry.example.strip()


def test_every_command_a_message_names_exists():
    named = {
        (place, word)
        for place, text in _texts(catalogue_too=True)
        for word in COMMAND.findall(text)
    }
    assert sorted(item for item in named if item[1] not in COMMANDS) == []


def test_every_command_an_example_uses_exists():
    words = {
        (code, match)
        for code, entry in catalogue().items()
        for match in re.findall(r"^(?:.*; )?jobrun ([a-z][a-z-]*)", entry.example, re.MULTILINE)
    }
    known = {*COMMANDS, "rnu"}
    assert sorted(item for item in words if item[1] not in known) == []
