from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.hdf5.dataset_names import (
    blob_names,
    group_links,
    quote_name,
    unquote_name,
)
from tests.support.tables import each_case

# With halves of surrogate pairs, which a name read from somewhere may have.
NAMES = st.text(st.characters(), min_size=1, max_size=20)


@given(NAMES, NAMES)
def test_different_names_are_quoted_differently(first, second):
    assert (quote_name(first) == quote_name(second)) == (first == second)
    assert unquote_name(quote_name(first)) == first


@given(NAMES)
def test_a_quoted_name_is_text_of_one_line(name):
    assert quote_name(name).encode()
    assert not {"\n", "\0", "/"} & set(quote_name(name))


@each_case(
    ("name", "in_file"),
    [
        ("w", "w"),
        ("readers/train", "readers%2Ftrain"),
        ("a%b", "a%25b"),
        (".", "%2E"),
        ("a.b", "a.b"),
        ("größe", "größe"),
        ("a\0\x7f", "a%00%7F"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_names_are_quoted_only_where_hdf5_would_misread_them(name, in_file):
    assert quote_name(name) == in_file


def test_name_with_a_percent_sign_and_a_slash_is_no_group():
    links = ["%AC/x", "tree/:structure", "tree/0"]

    assert group_links(links) == {"tree": ["tree/:structure", "tree/0"]}
    assert blob_names(links) == ("%AC/x", "tree")
