from __future__ import annotations

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.sweeping.record import Asked, read_asked, sweep_folder, write_asked


def test_what_was_asked_for_is_read_back(tmp_path):
    folder = sweep_folder(tmp_path, "grow")
    asked = Asked(("k=1,2", "rate=0.1..1.0"), 5, 7)

    write_asked(folder, asked)

    assert read_asked(folder) == asked


@pytest.mark.parametrize("content", [None, "", "[]", '{"grid": 1}', '{"grid": []}'])
def test_a_sweep_that_is_not_there_or_damaged_has_to_be_asked_for_again(tmp_path, content):
    folder = sweep_folder(tmp_path, "grow")
    if content is not None:
        folder.mkdir(parents=True)
        (folder / "sweep.json").write_text(content)

    with pytest.raises(UsageError, match=r"E438.*--grid"):
        read_asked(folder)
