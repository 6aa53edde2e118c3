"""The codes that the program raises and the sections of the error catalogue agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from jobrun.cli.app import COMMANDS
from jobrun.core import error_catalogue
from jobrun.core.error_catalogue import parse_area, read_catalogue
from tests.support.tables import check_each, each_case

PACKAGE = Path(__file__).parent.parent / "jobrun"
AREAS = sorted(Path(error_catalogue.__file__).parent.glob("*.md"))
CATALOGUE = read_catalogue()
CODE = re.compile(r"[EW]\d{3}")
# Also what is meant as a code and has a letter or a digit wrong.
LIKE_A_CODE = re.compile(r"[EWew]\d{2,}")
# They take a code first. A code in another argument is compared with the catalogue as a text.
TAKE_A_CODE = {"Fault", "of", "error", "warn"}
COMMAND = re.compile(r"[`']jobrun ([a-z][a-z-]+)")
# Words that readers stumble over: say which program does what, and name the thing.
VAGUE = re.compile(
    r"\b(told|tells?|stands?|goes on|whoever|nobody|somebody|anew|heeds?|in all|so long)\b",
    re.IGNORECASE,
)


@cache
def _modules() -> dict[str, ast.Module]:
    """Return the parsed modules of the program, by path."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def _texts() -> list[tuple[str, str]]:
    """Return place and value of each text constant of the program, parts of f-strings included."""
    return [
        (f"{path}:{node.lineno}", node.value)
        for path, module in _modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _first_arguments() -> Iterator[tuple[str, str]]:
    """Yield place and text of each constant that is passed where a code is expected."""
    for path, module in _modules().items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            owner, _, name = ast.unparse(node.func).rpartition(".")
            first = node.args[0]
            if (
                name in TAKE_A_CODE
                and owner != "warnings"
                and isinstance(first, ast.Constant | ast.JoinedStr)
            ):
                yield f"{path}:{node.lineno}", ast.unparse(first).strip("'")


def test_every_code_in_the_source_is_in_the_catalogue():
    unknown = [
        f"{position} {text}"
        for position, text in _texts()
        if LIKE_A_CODE.fullmatch(text) and text not in CATALOGUE
    ]
    assert unknown == []


def test_faults_are_made_with_a_code_of_the_catalogue_first():
    arguments = list(_first_arguments())

    assert len(arguments) > 400
    assert [argument for argument in arguments if argument[1] not in CATALOGUE] == []


def test_every_code_of_the_catalogue_is_raised():
    raised = {text for _, text in _texts() if CODE.fullmatch(text)}
    assert sorted(set(CATALOGUE) - raised) == []


@each_case("path", AREAS)
def test_the_sections_of_an_area_are_in_order_and_hold_nothing_that_is_not_read(path):
    text = path.read_text(encoding="utf-8")
    codes = [code for code, _ in parse_area(text, path.stem)]

    assert all(first < second for first, second in pairwise(codes))
    assert len(codes) == len(re.findall("^## ", text, re.MULTILINE))
    assert len(re.findall("^```", text, re.MULTILINE)) == 2 * sum(
        bool(CATALOGUE[code].example) for code in codes
    )
    assert max(map(len, re.sub("(?s)```.*?```", "", text).splitlines())) <= 100


def test_a_code_in_two_areas_is_refused(tmp_path, monkeypatch):
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("# Area\n\n## E001: a title\n\nSome text.\n")
    monkeypatch.setattr(error_catalogue, "_FOLDER", tmp_path)

    with pytest.raises(ValueError, match=r"E001 is in one.md and in two.md"):
        read_catalogue()


def test_a_section_is_taken_apart():
    text = (
        "# Area\n\n## E001: a title\n\nTwo\nlines.\n\nMore.\n\nFix: do\nthis.\n\n"
        "```yaml\na: 1\n\nb: 2\n```\n\n## W002: bare\n\nText.\n"
    )
    first, second = dict(parse_area(text, "spec")).values()

    assert (first.title, first.explanation, first.fix, first.example, first.area) == (
        "a title",
        "Two lines.\n\nMore.",
        "do this.",
        "a: 1\n\nb: 2",
        "spec",
    )
    assert (second.explanation, second.fix, second.example) == ("Text.", "", "")


def test_each_entry_explains():
    check_each(CATALOGUE, _check_entry)


def _check_entry(code):
    entry = CATALOGUE[code]
    assert entry.title
    assert not entry.title.endswith(".")
    assert len(entry.explanation) > 20
    assert entry.explanation.rstrip().endswith((".", ":", ")"))
    assert entry.fix.endswith((".", "`", ")"))
    for text in (entry.title, entry.explanation, entry.fix):
        assert text.count("`") % 2 == 0
        assert not VAGUE.search(text)


def test_every_command_a_message_or_an_explanation_names_exists():
    prose = [(code, f"{entry.explanation} {entry.fix}") for code, entry in CATALOGUE.items()]
    named = {
        (position, word) for position, text in (*_texts(), *prose) for word in COMMAND.findall(text)
    }
    assert sorted(item for item in named if item[1] not in COMMANDS) == []


def test_every_command_an_example_uses_exists():
    words = {
        (code, match)
        for code, entry in CATALOGUE.items()
        for match in re.findall(r"^(?:.*; )?jobrun ([a-z][a-z-]*)", entry.example, re.MULTILINE)
    }
    known = {*COMMANDS, "rnu"}
    assert sorted(item for item in words if item[1] not in known) == []
