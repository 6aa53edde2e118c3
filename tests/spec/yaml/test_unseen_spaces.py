from __future__ import annotations

import pytest

from jobrun.core.errors import SpecError
from jobrun.spec.yaml.parse import read_document

SPACES = ["\u00a0", "\u00ad", "\u2003", "\u200b", "\u202f", "\u2060", "\u3000"]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a:{}1\nb: 2\n", 1, 3),
        ("a{}b: 1\n", 1, 2),
        ("a: 1{}\n", 1, 5),
        ("a: [b:{}1]\n", 1, 7),
        ("a:\n{} - {{b: 1}}\n", 2, 1),
        ("a:\n  - b: 1\n  {} c: 2\n", 3, 3),
        ("a:\n  - x +={}1\n", 2, 9),
    ],
)
def test_a_space_that_is_no_blank_is_named_where_it_is(text, line, column, space):
    with pytest.raises(SpecError) as caught:
        read_document(text.format(space), "a.yaml")

    (fault,) = caught.value.faults
    assert fault.code == "E004"
    assert f"U+{ord(space):04X}" in fault.message
    assert (fault.where.line, fault.where.column) == (line, column)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "text", ['a: "b{}c"\n', "a: 'b{}c'\n", "a: |\n  b{}c\n", "a: 1 # b{}c\n", "#{}b\na: 1\n"]
)
def test_in_quotes_blocks_and_comments_it_is_text(text, space):
    assert read_document(text.format(space), "a.yaml").faults == ()


def test_a_comment_with_such_a_space_hides_no_other_error():
    with pytest.raises(SpecError) as caught:
        read_document("a: b: 1 # c\u00a0d\n", "a.yaml")

    assert [fault.code for fault in caught.value.faults] != ["E004"]
