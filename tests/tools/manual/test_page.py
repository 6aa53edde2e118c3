"""The manual as a page."""

from __future__ import annotations

import pytest

from jobrun.core.codes import catalogue
from jobrun.ops.table import OPERATORS
from jobrun.spec.schema import schema
from jobrun.tools.manual.keys import tables
from jobrun.tools.manual.page import manual_page
from tests.support.browser import browsing


@pytest.fixture(scope="module")
def text():
    topics = {"checkpoint-format": "a <b> file"}
    return manual_page(tables(schema()), topics, OPERATORS, catalogue(), "now")


def test_everything_is_there(text):
    assert all(f'id="{code}"' in text for code in catalogue())
    assert all(f"<code>{name}(" in text for name in OPERATORS)
    assert 'id="key-checkpoint-keep"' in text
    assert "a &lt;b&gt; file" in text


def test_it_needs_nothing_else(text):
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")


@pytest.mark.long
def test_a_browser_shows_it_without_a_complaint_wide_and_narrow(text, tmp_path):
    (tmp_path / "manual.html").write_text(text)
    with browsing(tmp_path) as tab:
        for width in (1280, 390):
            tab.open(tmp_path / "manual.html", width=width)
            assert tab.value("document.documentElement.scrollWidth") <= width
            assert tab.value("document.querySelectorAll('section').length") == 4
        assert tab.errors == []
        assert len(tab.requests) == 2
