from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.names import quoted, unquoted

# With halves of surrogate pairs, which a name read from somewhere may have.
NAMES = st.text(st.characters(), min_size=1, max_size=20)


@given(NAMES, NAMES)
def test_different_names_are_quoted_differently(first, second):
    assert (quoted(first) == quoted(second)) == (first == second)
    assert unquoted(quoted(first)) == first


@given(NAMES)
def test_a_quoted_name_is_text_of_one_line(name):
    assert quoted(name).encode()
    assert not {"\n", "\0", "/"} & set(quoted(name))


@pytest.mark.parametrize(
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
    assert quoted(name) == in_file
