"""The manual as a page."""

from __future__ import annotations

import pytest

from jobrun.core.error_catalogue import read_catalogue
from jobrun.ops.operator_table import OPERATORS
from jobrun.spec.models.json_schema import schema
from jobrun.tools.html_manual import render_manual
from jobrun.tools.manual import read_pages
from jobrun.tools.spec_key_tables import read_tables
from tests.support.browser import browsing


@pytest.fixture(scope="module")
def text():
    topics = {"checkpoint-format": "a <b> file"}
    return render_manual(read_tables(schema()), topics, OPERATORS, read_catalogue(), "now")


def test_everything_is_there(text):
    assert all(f'id="{code}"' in text for code in read_catalogue())
    assert all(f"<code>{name}(" in text for name in OPERATORS)
    assert 'id="key-checkpoint-keep"' in text
    assert "a &lt;b&gt; file" in text


def test_it_needs_nothing_else(text):
    assert "<script src" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def _shown_after(tab, words):
    """Type words into the search field, and return the sections that are left."""
    return tab.value(
        f"(() => {{ const field = document.getElementById('search'); field.value = '{words}';"
        " field.dispatchEvent(new Event('input'));"
        " return Array.from(document.querySelectorAll('main > section')).filter(one => !one.hidden)"
        ".map(one => one.id); })()"
    )


@pytest.mark.long
def test_a_browser_shows_it_without_a_complaint_wide_and_narrow(text, tmp_path):
    (tmp_path / "manual.html").write_text(text)
    with browsing(tmp_path) as tab:
        for width in (1280, 390):
            tab.open(tmp_path / "manual.html", width=width)
            assert tab.value("document.documentElement.scrollWidth") <= width
            assert tab.value("document.querySelectorAll('section').length") == 4 + len(read_pages())
        assert _shown_after(tab, "state_dir") == ["prove", "exactness", "keys", "codes"]
        assert _shown_after(tab, "requeues slurm") == ["batch"]
        assert _shown_after(tab, "zzqqzz") == []
        assert len(_shown_after(tab, "")) == 4 + len(read_pages())
        assert tab.errors == []
        # Pictures are in the page itself: only the page was asked for, twice.
        assert len([url for url in tab.requests if not url.startswith("data:")]) == 2
