import json

import pytest

from jobrun.core.errors import Fault, Origin
from jobrun.core.text.fault_text import (
    Excerpt,
    as_json,
    excerpt,
    headline,
    render,
    render_github,
    summary,
)


def _fault(line=1, column=1, length=1, file="job.yaml", **other):
    facts = {"message": "unknown key", "mend": "write when", "path": "stop[0].wen"} | other
    return Fault("E021", where=Origin(file, line, column, length), **facts)


def test_a_fault_shows_its_line_with_carets_and_the_mend():
    text = "jobrun: 1\nstop:\n  - wen: shift < tol\n"

    assert render(_fault(3, 5, 3), {"job.yaml": text}) == (
        "error[E021] job.yaml:3:5  stop[0].wen: unknown key\n"
        "    3 |   - wen: shift < tol\n"
        "      |     ^^^ write when"
    )


def test_a_fault_in_a_file_that_was_not_read_shows_no_line():
    assert render(_fault(3, 5), {}) == (
        "error[E021] job.yaml:3:5  stop[0].wen: unknown key\n      = write when"
    )


def test_a_fault_without_a_place_is_a_headline_and_a_mend():
    assert render(Fault("E404", "no such option", "see --help"), {}) == (
        "error[E404] no such option\n      = see --help"
    )


def test_a_warning_says_so():
    warning = Fault("W100", "slow", severity="warning")

    assert headline(warning) == "warning[W100] slow"


def test_a_fault_of_an_option_underlines_its_value():
    fault = _fault(0, 0, file="--set #1")

    shown = excerpt(fault, {"--set #1": "params.k=abc"})

    assert shown == Excerpt("", "params.k=abc", 9, 3)


def test_a_place_behind_the_last_line_shows_no_line():
    assert excerpt(_fault(9, 1), {"job.yaml": "a: 1\n"}) is None


def test_a_long_line_is_cut_around_the_place():
    line = "a" * 500 + "HERE" + "b" * 500

    shown = excerpt(_fault(1, 501, 4), {"job.yaml": line})

    assert len(shown.text) == 100
    assert shown.text[shown.indent : shown.indent + shown.carets] == "HERE"
    assert shown.text.startswith("…")
    assert shown.text.endswith("…")


def test_the_end_of_a_long_line_is_shown_whole():
    line = "a" * 500 + "HERE"

    shown = excerpt(_fault(1, 501, 4), {"job.yaml": line})

    assert shown.text.endswith("HERE")


def test_carets_end_with_the_shown_line():
    shown = excerpt(_fault(1, 4, 50), {"job.yaml": "a: [1, 2\n  3]"})

    assert shown.carets == len("[1, 2")


def test_control_characters_cannot_reach_the_terminal():
    text = render(
        _fault(1, 1, message="found \x1b[31m", path="\x07"), {"job.yaml": "a: \x1b[2J\x9b"}
    )

    assert text.replace("\n", "").isprintable()


def test_a_tab_shows_and_keeps_columns():
    shown = excerpt(_fault(1, 3, 1), {"job.yaml": "\t\tx"})

    assert (shown.text, shown.indent) == ("→→x", 2)


def test_wide_letters_move_the_carets():
    shown = excerpt(_fault(1, 5, 2), {"job.yaml": "名前: 試験"})

    assert (shown.indent, shown.carets) == (6, 4)


def test_accents_of_their_own_do_not_move_the_carets():
    shown = excerpt(_fault(1, 3, 1), {"job.yaml": "e\u0301x"})

    assert shown.indent == 1


def test_a_line_end_of_two_characters_is_no_part_of_the_line():
    assert excerpt(_fault(1, 1), {"job.yaml": "a: 1\r\nb: 2\r\n"}).text == "a: 1"


def test_github_gets_an_annotation():
    assert render_github(_fault(3, 5, 3)) == (
        "::error file=job.yaml,line=3,col=5,endColumn=8,title=jobrun E021"
        "::stop[0].wen: unknown key%0Awrite when"
    )


def test_github_gets_no_new_commands_from_a_spec():
    line = render_github(_fault(1, 1, file="a,b:c%.yaml", message="100%\n::error::x", mend=""))

    assert "\n" not in line
    assert "file=a%2Cb%3Ac%25.yaml," in line
    assert line.endswith("100%25%0A::error::x")


def test_github_annotation_names_the_option():
    assert render_github(_fault(0, 0, file="--set #1", mend="")) == (
        "::error title=jobrun E021::--set #1  stop[0].wen: unknown key"
    )


def test_faults_as_data():
    data = as_json([_fault(3, 5, 3), Fault("W100", "slow", severity="warning")])

    assert json.loads(json.dumps(data)) == {
        "schema": "jobrun.faults/1",
        "errors": 1,
        "warnings": 1,
        "faults": [
            {
                "code": "E021",
                "severity": "error",
                "message": "unknown key",
                "mend": "write when",
                "path": "stop[0].wen",
                "file": "job.yaml",
                "line": 3,
                "column": 5,
                "length": 3,
            },
            {
                "code": "W100",
                "severity": "warning",
                "message": "slow",
                "mend": "",
                "path": "",
                "file": None,
                "line": None,
                "column": None,
                "length": None,
            },
        ],
    }


@pytest.mark.parametrize(
    ("errors", "warnings", "text"),
    [(0, 0, ""), (1, 0, "1 error"), (3, 1, "3 errors, 1 warning"), (0, 2, "2 warnings")],
)
def test_the_summary_counts(errors, warnings, text):
    faults = [Fault("E001", "x")] * errors + [Fault("W100", "x", severity="warning")] * warnings

    assert summary(faults) == text
