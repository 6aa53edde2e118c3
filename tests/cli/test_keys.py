"""Keys of a spec in a terminal."""

from __future__ import annotations

from jobrun.cli.keys import key_page, key_tables
from jobrun.tools.manual.keys import words


def test_a_table_fits_a_terminal():
    pages = [key_page(one.path) for one in key_tables() if one.path]

    assert max(len(line) for page in pages for line in page.splitlines()) <= 80


def test_a_required_key_and_a_default_are_told():
    page = key_page("task")

    assert "  task       name, required: unique in the job\n" in page
    assert "  hogwild    true or false, else false: races on shared blobs are wanted\n" in page


def test_what_is_no_key_has_no_page():
    assert key_page("nonsense") is None
    assert all(map(key_page, words(key_tables())))
