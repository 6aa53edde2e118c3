"""Markup that cannot be broken out of."""

from __future__ import annotations

import json
import re

import pytest

from jobrun.tools.report.html import Html, data, facts, plain, table, tag, text

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202e\x00\ud800"


def test_what_is_inside_is_escaped_unless_it_is_markup():
    assert tag("p", "<b>", Html("<i>")) == "<p>&lt;b&gt;<i></p>"


def test_attributes_cannot_be_left():
    assert tag("a", title='" onclick="x') == '<a title="&quot; onclick=&quot;x"></a>'


def test_names_of_attributes_may_be_words_of_the_language_or_have_a_dash():
    assert tag("p", class_="x", aria_label="y", hidden=True, id=None) == (
        '<p class="x" aria-label="y" hidden></p>'
    )


def test_an_element_without_content_has_no_end():
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_marks_that_turn_text_around_and_control_characters_are_written_out():
    assert plain("a\u202eb\x00\ud800") == "a\\u202eb\\u0000\\ud800"
    assert plain("tab\tline\n") == "tab\tline\n"


@pytest.mark.parametrize(
    "make",
    [
        text,
        lambda hostile: tag("p", hostile),
        lambda hostile: tag("p", title=hostile),
        lambda hostile: table((hostile,), ((hostile,),)),
        lambda hostile: facts([(hostile, hostile)]),
    ],
)
def test_hostile_text_makes_no_element(make):
    assert re.findall("<(script|img)", make(HOSTILE)) == []


def test_values_for_a_script_come_back_as_they_were():
    held = data("d", {"x": [HOSTILE, 1.5]})
    inside = re.fullmatch(r'<script type="application/json" id="d">([^<>&]*)</script>', held)

    assert json.loads(inside[1]) == {"x": [HOSTILE, 1.5]}
