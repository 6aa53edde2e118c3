from __future__ import annotations

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.runs.tags import TAGS_NAME, change_tags, tags_of


def test_tags_are_put_on_and_taken_off_sorted_and_once(tmp_path):
    assert tags_of(tmp_path) == ()
    assert change_tags(tmp_path, ("lr=0.1", "best", "best"), ()) == ("best", "lr=0.1")
    assert change_tags(tmp_path, (), ("best", "unknown")) == ("lr=0.1",)
    assert tags_of(tmp_path) == ("lr=0.1",)


@pytest.mark.parametrize("tag", ["", "two words", "-x", "a\n", "ü" * 3, "x" * 65])
def test_a_tag_is_one_word(tmp_path, tag):
    with pytest.raises(UsageError, match="E422"):
        change_tags(tmp_path, (tag,), ())

    assert not (tmp_path / TAGS_NAME).exists()


@pytest.mark.parametrize("text", ["", "{}", '["a b", 3, "good"]', "[[["])
def test_a_damaged_file_hides_no_run(tmp_path, text):
    (tmp_path / TAGS_NAME).write_text(text)

    assert set(tags_of(tmp_path)) <= {"good"}
