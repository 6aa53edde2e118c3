"""The codes that the program raises and the sections of the error catalogue agree."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from jobrun.cli.app import COMMANDS
from jobrun.core import error_catalogue
from jobrun.core.error_catalogue import parse_area, read_catalogue
from tests.support.error_codes import STUB, render_stub
from tests.support.prose import AVOIDED_IN_MESSAGES, find_avoided_words, parse
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


def test_the_type_of_codes_is_the_one_that_make_manual_writes():
    assert STUB.read_text() == render_stub(), "run 'make manual'"


@cache
def _read_constants() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return place and text of constants: all of the program, and those passed as a code.

    Parts of f-strings are included.
    """
    texts, first_arguments = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        label = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append((f"{label}:{node.lineno}", node.value))
            elif isinstance(node, ast.Call) and (code := _code_argument(node)):
                first_arguments.append((f"{label}:{node.lineno}", code))
    return texts, first_arguments


def _code_argument(call: ast.Call) -> str:
    """Return the text of a constant that is passed where a code is expected, or nothing."""
    if not call.args or not isinstance(call.args[0], ast.Constant | ast.JoinedStr):
        return ""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if name not in TAKE_A_CODE or owner == "warnings":
        return ""
    return ast.unparse(call.args[0]).strip("'")


def _texts() -> list[tuple[str, str]]:
    return _read_constants()[0]


def test_every_code_in_the_source_is_in_the_catalogue():
    unknown = [
        f"{position} {text}"
        for position, text in _texts()
        if LIKE_A_CODE.fullmatch(text) and text not in CATALOGUE
    ]
    assert not unknown, (
        "correct the code, or add its section to jobrun/core/error_catalogue:\n"
        + "\n".join(unknown)
    )


def test_faults_are_made_with_a_code_of_the_catalogue_first():
    _, arguments = _read_constants()

    assert len(arguments) > 400
    unknown = [f"{position} {code}" for position, code in arguments if code not in CATALOGUE]
    assert not unknown, (
        "pass a code of jobrun/core/error_catalogue first, or add its section:\n"
        + "\n".join(unknown)
    )


def test_every_code_of_the_catalogue_is_raised():
    raised = {text for _, text in _texts() if CODE.fullmatch(text)}
    unused = sorted(set(CATALOGUE) - raised)
    assert not unused, f"nothing raises {unused}: raise them, or delete their sections"


@each_case("path", AREAS)
def test_the_sections_of_an_area_are_in_order_and_hold_nothing_that_is_not_read(path):
    text = path.read_text(encoding="utf-8")
    codes = [code for code, _ in parse_area(text, path.stem)]

    assert all(first < second for first, second in pairwise(codes))
    assert len(codes) == len(re.findall("^## ", text, re.MULTILINE))
    assert len(re.findall("^```", text, re.MULTILINE)) == 2 * sum(
        bool(CATALOGUE[code].example) for code in codes
    )
    long_lines = [
        line for line in re.sub("(?s)```.*?```", "", text).splitlines() if len(line) > 100
    ]
    assert not long_lines, f"break these lines of {path.name} before column 100: {long_lines}"


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
    assert entry.title, f"write a title after '## {code}:'"
    assert not entry.title.endswith("."), f"take the full stop from the title {entry.title!r}"
    assert len(entry.explanation) > 20, f"explain more than {entry.explanation!r}: why is it wrong?"
    assert entry.explanation.rstrip().endswith((".", ":", ")")), (
        f"end the explanation with a full stop: {entry.explanation[-60:]!r}"
    )
    assert entry.fix.endswith((".", "`", ")")), f"end the 'Fix:' with a full stop: {entry.fix!r}"
    for text in (entry.title, entry.explanation, entry.fix):
        assert text.count("`") % 2 == 0, f"close the backquote in {text!r}"
        reports = find_avoided_words(text, f"the entry of {code}", AVOIDED_IN_MESSAGES)
        assert not reports, "\n".join(reports)


def test_every_command_a_message_or_an_explanation_names_exists():
    prose = [(code, f"{entry.explanation} {entry.fix}") for code, entry in CATALOGUE.items()]
    named = {
        (position, word) for position, text in (*_texts(), *prose) for word in COMMAND.findall(text)
    }
    unknown = [f"{position}: jobrun {word}" for position, word in named if word not in COMMANDS]
    assert not unknown, "no such command; write the one that is meant:\n" + "\n".join(unknown)


def test_every_command_an_example_uses_exists():
    words = {
        (code, match)
        for code, entry in CATALOGUE.items()
        for match in re.findall(r"^(?:.*; )?jobrun ([a-z][a-z-]*)", entry.example, re.MULTILINE)
    }
    known = {*COMMANDS, "rnu"}
    unknown = [f"example of {code}: jobrun {word}" for code, word in words if word not in known]
    assert not unknown, "no such command; write the one that is meant:\n" + "\n".join(unknown)
