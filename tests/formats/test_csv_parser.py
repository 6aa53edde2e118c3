from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.core.errors import JobrunError
from jobrun.formats import csv as tables
from jobrun.formats import csv_parser
from jobrun.formats.csv import TableRows, open_file, read_table

# What Python and pyarrow might understand in two ways.
UNUSUAL = [
        "", " ", "0", "-0", "+5", "007", " 7 ", "1_000", "1e5", "1E+05", "1e-400", "1e400", "1d5",
        ".5", "5.", "nan", "-nan", "NaN", "nan(1)", "inf", "-Infinity", "0x10", "true", "NULL",
        "2020-01-01", "12:30", "٣", "\xa01", "1\x0b", "é", "a b", '"a,b"', '"say ""x"""', "\x00",
        "9223372036854775807", "9223372036854775808", "0.1e", "1.0000000000000002",
    ]  # fmt: skip
FIELDS = st.one_of(
    st.integers(-(2**65), 2**65).map(str), st.floats().map(repr), st.sampled_from(UNUSUAL)
)
TABLES = st.integers(1, 3).flatmap(
    lambda width: st.tuples(
        st.sampled_from([",", "\t"]),
        st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
        st.booleans(),
        st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1, max_size=6),
    )
)


def outcome(act):
    """What a call returns, to the bit, or the message of its error."""
    try:
        values = act()
    except JobrunError as error:
        return error.faults[0].message
    return [(value.dtype.str, value.shape, value.tobytes()) for value in values]


def write(folder, delimiter, end, ends_with_newline, rows):
    path = folder / ("x.csv" if delimiter == "," else "x.tsv")
    names = delimiter.join(f"name{number}" for number in range(len(rows[0])))
    lines = [names, *(delimiter.join(row) for row in rows)]
    path.write_bytes((end.join(lines) + (end if ends_with_newline else "")).encode())
    return str(path), [f"name{number}" for number in range(len(rows[0]))]


@settings(max_examples=40)
@given(TABLES)
def test_a_column_is_the_same_whether_pyarrow_is_installed_or_not(tmp_path_factory, table):
    path, names = write(tmp_path_factory.mktemp("csv"), *table)

    def read():
        return [*(read_table(path, name) for name in names)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_parser, "_has_arrow", lambda: False)
        without = outcome(read)
        patch.setattr(csv_parser, "_has_arrow", lambda: True)
        patch.setattr(csv_parser, "_SMALL_BYTES", 0)
        assert outcome(read) == without


@pytest.mark.parametrize("other", ["", "1", "1.5", "a", "-0"])
@pytest.mark.parametrize("head", ["name\n", "\ufeff\n\nname\r\n"])
def test_an_unusual_field_is_understood_as_python_does(tmp_path, monkeypatch, head, other):
    monkeypatch.setattr(csv_parser, "_SMALL_BYTES", 0)
    path = tmp_path / "x.csv"
    read = csv_parser._has_arrow
    for field in UNUSUAL:
        path.write_text(f"{head}{field},{other}\n".replace("name", "n,m") + f"{other},{field}\n")
        collected = []
        for has_arrow in (lambda: False, read):
            monkeypatch.setattr(csv_parser, "_has_arrow", has_arrow)
            collected.append(outcome(lambda: [read_table(str(path), name) for name in ("n", "m")]))
        assert collected[0] == collected[1], field


@settings(max_examples=30)
@given(TABLES.filter(lambda table: table[1] != "\r"))
def test_rows_are_the_same_from_memory_and_from_the_file(tmp_path_factory, table):
    path, names = write(tmp_path_factory.mktemp("csv"), *table)

    def read(opened):
        rows = opened(path, tuple(names))
        pieces = [*rows.take(0, len(rows)), *rows.pick(np.arange(len(rows))[::-1])]
        rows.close()
        return pieces

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_parser, "_SMALL_BYTES", 0)
        expected = outcome(lambda: read(TableRows))
        if isinstance(expected, list):
            assert outcome(lambda: read(open_file)) == expected


def test_most_tables_are_parsed_by_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_parser, "_SMALL_BYTES", 0)
    monkeypatch.setattr(tables, "_rows", None)
    path = tmp_path / "x.csv"
    path.write_text("i,f,t,d\n1,2.5e+00,a,2020-01-01\n2,,bcd,2020-01-02\n")

    assert read_table(str(path), "i").tolist() == [1, 2]
    assert read_table(str(path), "f").tolist()[0] == 2.5
    assert read_table(str(path), "t").dtype == "<U3"
    assert read_table(str(path), "d").tolist() == ["2020-01-01", "2020-01-02"]


def test_one_long_text_does_not_widen_a_million_short_ones(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("t\n" + "a\n" * 10_000 + "b" * 100_000 + "\n")

    rows = open_file(str(path), ("t",))

    assert isinstance(rows, TableRows)
    assert rows.take(0, 3)[0].tolist() == ["a", "a", "a"]
    rows.close()
