"""The list of acknowledged epochs: whole, torn, damaged, another run's."""

from __future__ import annotations

import json
import zlib

import pytest

from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.runner.rundir.journal import (
    JOURNAL_NAME,
    PINS_NAME,
    Journal,
    JournalContents,
    MetricsSpan,
    parse_journal,
    read_journal,
    read_pins,
    set_aside_journal,
    write_pins,
)


def write(run, *epochs):
    journal = Journal.open(run, "id-1")
    for epoch in epochs:
        journal.acknowledge(epoch, 0)
    journal.close()
    return (run / JOURNAL_NAME).read_bytes()


def test_missing_journal_is_empty(tmp_path):
    assert read_journal(tmp_path, "id-1") == JournalContents()
    assert read_journal(tmp_path, "id-1").newest == -1


def test_every_line_is_json_with_a_checksum(tmp_path):
    lines = write(tmp_path, 0, 1).splitlines()

    assert [json.loads(line)["epoch"] for line in lines] == [0, 1]
    assert all(len(json.loads(line)["crc32"]) == 8 for line in lines)


def test_acknowledgements_are_read_back(tmp_path):
    write(tmp_path, 0, 1, 2)

    assert read_journal(tmp_path, "id-1").epochs == (0, 1, 2)


def test_row_50_any_torn_tail_is_dropped_and_cut_off_at_the_next_start(tmp_path):
    data = write(tmp_path, 0, 1, 2)
    two = data.index(b"\n", data.index(b"\n") + 1) + 1
    for length in range(two, len(data)):
        (tmp_path / JOURNAL_NAME).write_bytes(data[:length])

        journal_contents = read_journal(tmp_path, "id-1")

        assert journal_contents.epochs == (0, 1)
        assert journal_contents.torn_bytes == length - two
        write(tmp_path, 2)
        assert (tmp_path / JOURNAL_NAME).read_bytes() == data


def test_a_last_line_that_ends_but_does_not_check_out_is_torn_too(tmp_path):
    data = write(tmp_path, 0, 1)

    journal_contents = parse_journal(data[:-3] + b"x}\n", "id-1")

    assert journal_contents.epochs == (0,)
    assert journal_contents.torn_bytes > 0


def test_row_50_every_changed_byte_before_the_last_line_is_noticed(tmp_path):
    data = write(tmp_path, 0, 1, 2)
    last = data.rindex(b"\n", 0, -1)
    for offset in range(last):
        damaged = bytearray(data)
        damaged[offset] ^= 0x5A

        with pytest.raises(CheckpointError, match=r"line [123] of committed\.jsonl") as raised:
            parse_journal(bytes(damaged), "id-1")

        assert raised.value.faults[0].code == "E356"


def test_row_50_the_journal_of_another_run_is_refused(tmp_path):
    write(tmp_path, 0, 1, 2)

    with pytest.raises(CheckpointError):
        read_journal(tmp_path, "id-2")


def test_rewind_revokes_later_acknowledgements(tmp_path):
    journal = Journal.open(tmp_path, "id-1")
    for epoch in range(5):
        journal.acknowledge(epoch, 0)
    journal.rewind(2, 1)
    journal.acknowledge(3, 1)
    journal.close()

    journal_contents = read_journal(tmp_path, "id-1")

    assert journal_contents.epochs == (0, 1, 2, 3)
    assert (journal_contents.rewound_to, journal_contents.generation) == (2, 1)


def test_damaged_journal_is_kept_when_set_aside(tmp_path):
    (tmp_path / JOURNAL_NAME).write_bytes(b"first")
    set_aside_journal(tmp_path)
    (tmp_path / JOURNAL_NAME).write_bytes(b"second")
    set_aside_journal(tmp_path)

    superseded = sorted((tmp_path / "superseded").iterdir())

    assert [path.read_bytes() for path in superseded] == [b"first", b"second"]


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
def test_pins_file_without_a_list_of_epochs_is_refused(tmp_path, text):
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


def test_deleted_epochs_are_no_lost_ones(tmp_path):
    journal = Journal.open(tmp_path, "id-1")
    for epoch in range(6):
        journal.acknowledge(epoch, 0, {epoch - 3} if epoch > 3 else ())
    journal.close()

    journal_contents = read_journal(tmp_path, "id-1")

    assert journal_contents.deleted == {1, 2}
    assert journal_contents.find_lost((0, 3, 4, 5)) == ()
    assert journal_contents.find_lost((0, 3)) == (4, 5)
    assert journal_contents.find_lost((0, 5), after=0) == (3, 4)
    assert journal_contents.find_lost((0, 5), after=3) == (4,)


def test_an_epoch_that_was_computed_again_is_not_deleted(tmp_path):
    journal = Journal.open(tmp_path, "id-1")
    for epoch in range(4):
        journal.acknowledge(epoch, 0, {epoch - 1} if epoch > 1 else ())
    journal.rewind(0, 1)
    journal.acknowledge(1, 1)
    journal.close()

    assert read_journal(tmp_path, "id-1").find_lost((0,)) == (1,)


def test_the_metrics_of_a_later_line_take_the_place_of_earlier_ones(tmp_path):
    journal = Journal.open(tmp_path, "id-1")
    spans = [MetricsSpan(-1, 2, 4, 7), MetricsSpan(2, 3, 1, 8), MetricsSpan(3, 5, 2, 9)]
    for span in spans:
        journal.acknowledge(span.last, 0, (), span)
    assert read_journal(tmp_path, "id-1").metrics == tuple(spans)
    journal.acknowledge(3, 0)
    journal.rewind(3, 1)
    assert read_journal(tmp_path, "id-1").metrics == tuple(spans[:2])
    journal.acknowledge(3, 1, (), MetricsSpan(-1, 3, 5, 15))
    journal.close()

    assert read_journal(tmp_path, "id-1").metrics == (MetricsSpan(-1, 3, 5, 15),)


def test_a_journal_of_an_older_version_misses_only_the_newest(tmp_path):
    lines = write(tmp_path, 1, 2, 3)
    old = b"".join(
        with_checksum({key: value for key, value in json.loads(line).items() if key != "deletes"})
        for line in lines.splitlines()
    )

    journal_contents = parse_journal(old, "id-1")

    assert journal_contents.unrecorded == 3
    assert journal_contents.find_lost((3,)) == ()
    assert journal_contents.find_lost((1,)) == (3,)


def with_checksum(entry):
    entry.pop("crc32")
    text = json.dumps(entry, sort_keys=True)
    return f'{{"crc32": "{zlib.crc32(text.encode()):08x}", {text[1:]}\n'.encode()
