"""The file that says which epochs a user wants kept."""

from __future__ import annotations

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.rundir.pins import PINS_NAME, read_pins, write_pins


def test_pins_are_read_as_they_were_written(tmp_path):
    assert read_pins(tmp_path) == frozenset()

    write_pins(tmp_path, {10, 9, 100})

    assert read_pins(tmp_path) == {9, 10, 100}


@pytest.mark.parametrize(
    "text",
    ["", "oops", "[1]", '{"format": 1}', '{"format": 2, "pinned": []}',
     '{"format": 1, "pinned": ["1"]}', '{"format": 1, "pinned": [-1]}',
     '{"format": 1, "pinned": [true]}', '{"format": 1, "pinned": {}}'],
)  # fmt: skip
def test_a_file_that_is_not_a_list_of_epochs_is_no_list_of_none(tmp_path, text):
    (tmp_path / PINS_NAME).write_text(text)

    with pytest.raises(EnvironmentFaultError) as caught:
        read_pins(tmp_path)

    assert caught.value.faults[0].code == "E385"


def test_a_link_is_not_followed(tmp_path):
    write_pins(tmp_path, {1})
    other = tmp_path / "other"
    other.mkdir()
    (other / PINS_NAME).symlink_to(tmp_path / PINS_NAME)

    with pytest.raises(EnvironmentFaultError):
        read_pins(other)
