from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobrun.core.errors import EnvironmentFaultError, JobrunError, TaskFailedError
from jobrun.formats import csv as row_tables
from jobrun.formats.csv import TableRows, read_table, write_table

NUMBERS = st.sampled_from([np.int64, np.float64]).flatmap(
    lambda dtype: arrays.arrays(dtype, st.integers(1, 6))
)
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6), min_size=1, max_size=6
)


def table(folder, text, name="x.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def written(columns, name="x.csv") -> str:
    stream = io.BytesIO()
    write_table(stream, name, columns)
    return stream.getvalue().decode()


def message_of(path, member="") -> str:
    with pytest.raises(EnvironmentFaultError) as caught:
        read_table(path, member)
    return caught.value.faults[0].message


def test_a_table_of_numbers_is_a_matrix(tmp_path):
    back = read_table(table(tmp_path, "a,b\n1,2.5\n3,4\n"), "")

    assert back.dtype == np.float64
    assert back.tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_integers_stay_integers(tmp_path):
    back = read_table(table(tmp_path, "1,2\n3,4\n"), "")

    assert back.dtype == np.int64
    assert back.tolist() == [[1, 2], [3, 4]]


def test_columns_are_read_by_name_or_place(tmp_path):
    path = table(tmp_path, "id,name,x\n1,ü,0.5\n2,b,1\n")

    assert read_table(path, "id").tolist() == [1, 2]
    assert read_table(path, "name").tolist() == ["ü", "b"]
    assert read_table(path, "x,id").tolist() == [[0.5, 1.0], [1.0, 2.0]]
    assert read_table(table(tmp_path, "1,2\n3,4\n"), "1").tolist() == [2, 4]


def test_an_empty_field_is_not_a_number_in_a_column_of_numbers(tmp_path):
    back = read_table(table(tmp_path, "a,b\n1,\n2,3\n"), "b")

    assert np.isnan(back[0])
    assert back[1] == 3.0


def test_quotes_tabs_marks_and_empty_lines_are_understood(tmp_path):
    path = table(tmp_path, '\ufeff"a,b",c\r\n"1","2"\r\n\r\n3,4\r\n')

    assert read_table(path, "a,b").tolist() == [1, 3]
    assert read_table(table(tmp_path, "a\tb\n1\t2\n", "x.tsv"), "b").tolist() == [2]


def test_digits_with_underscores_are_text(tmp_path):
    assert read_table(table(tmp_path, "a\n1_000\n"), "a").tolist() == ["1_000"]


def test_numbers_beyond_int64_are_floats(tmp_path):
    assert read_table(table(tmp_path, "a\n99999999999999999999\n"), "a").tolist() == [1e20]


def test_text_in_a_matrix_is_reported_with_line_and_column(tmp_path):
    message = message_of(table(tmp_path, "a,b\n1,2\n3,x\n"))

    assert "line 3" in message
    assert "'b'" in message
    assert "'x'" in message


def test_a_line_of_another_length_is_reported(tmp_path):
    assert "line 3 has 1 fields, expected 2" in message_of(table(tmp_path, "a,b\n1,2\n3\n"))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe\x00", b"a,b\n1,\xff\n", b'a\n"open\n'])
def test_an_invalid_table_is_reported(tmp_path, data):
    (tmp_path / "x.csv").write_bytes(data)

    assert "x.csv" in message_of(str(tmp_path / "x.csv"))


def test_a_table_of_names_alone_has_no_rows(tmp_path):
    assert read_table(table(tmp_path, "a,b\n"), "").shape == (0, 2)


@pytest.mark.long
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), NUMBERS, min_size=1))
def test_columns_of_numbers_round_trip_exactly(tmp_path_factory, columns):
    length = min(map(len, columns.values()))
    columns = {name: column[:length] for name, column in columns.items()}
    # A name that is a number would make the first line one of data.
    columns = {f"c_{name}": column for name, column in columns.items()}
    path = table(tmp_path_factory.mktemp("tables"), written(columns))

    for name, column in columns.items():
        back = read_table(path, name)
        assert back.dtype == column.dtype
        assert np.array_equal(back, column, equal_nan=column.dtype.kind == "f")


@given(TEXTS)
def test_text_round_trips(tmp_path_factory, items):
    items = [f"t{item}" for item in items]
    path = table(tmp_path_factory.mktemp("tables"), written({"name": np.array(items)}))

    assert read_table(path, "name").tolist() == items


def test_a_matrix_without_a_name_has_no_line_of_names(tmp_path):
    text = written({"": np.array([[1.0, 0.1], [2.0, np.inf]])})

    assert text == "1.0,0.1\n2.0,inf\n"
    assert written({"": np.array(3)}) == "3\n"
    assert written({"a": np.array([1]), "b": np.array([2])}, "x.tsv") == "a\tb\n1\t2\n"


@pytest.mark.parametrize(
    "columns",
    [
        {"": np.zeros((2, 2, 2))},
        {"a": np.zeros((2, 2))},
        {"a": np.zeros(2), "b": np.zeros(3)},
        {"a": np.zeros(2, complex)},
        {"a": np.zeros(2, "M8[s]")},
    ],
)
def test_a_value_that_is_no_table_is_not_written(columns):
    with pytest.raises(TaskFailedError, match=r"x\.csv"):
        written(columns)


def _rows(folder, text, *members):
    (folder / "a.csv").write_bytes(text.encode())
    return TableRows(str(folder / "a.csv"), members)


def test_a_column_has_the_dtype_of_all_its_fields(tmp_path):
    rows = _rows(tmp_path, "i,f,t,e\n1,2,a,\n3,4.5,bcd,1\n", "i", "f", "t", "e")

    assert [str(column.dtype) for column in rows.columns] == ["int64", "float64", "<U3", "float64"]
    i, f, t, e = rows.take(0, 1)
    assert (i.tolist(), f.tolist(), t.tolist()) == ([1], [2.0], ["a"])
    assert np.isnan(e[0])
    rows.close()


def test_columns_without_names_are_known_by_their_places(tmp_path):
    rows = _rows(tmp_path, "1,2\n3,4\n", "1", "")

    second, both = rows.take(0, 2)
    assert second.tolist() == [2, 4]
    assert both.tolist() == [[1, 2], [3, 4]]
    rows.close()


def test_quotes_line_breaks_and_empty_lines_are_read_as_a_table_has_them(tmp_path):
    text = '\ufeffa,b\r\n"x, ""y""\r\nz",1\r\n\r\nlast,2'
    rows = _rows(tmp_path, text, "a", "b")

    assert rows.take(0, 2)[0].tolist() == ['x, "y"\r\nz', "last"]
    assert rows.pick(np.array([1, 0, 1]))[1].tolist() == [2, 1, 2]
    rows.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3 has 1 fields, expected 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields, expected 2"),
        ('a,b\n1,"2\n', "does not end"),
    ],
)
def test_ragged_tables_are_reported_with_their_line(tmp_path, text, message):
    with pytest.raises(JobrunError, match=message):
        _rows(tmp_path, text, "a")


def test_text_in_a_matrix_is_reported(tmp_path):
    with pytest.raises(JobrunError, match="::b: it is text"):
        _rows(tmp_path, "a,b\n1,x\n", "a,b")


def test_an_index_that_grows_too_large_is_thinned_out(tmp_path, monkeypatch):
    monkeypatch.setattr(row_tables, "MOST_PLACES", 16)
    text = "a\n" + "".join(f"{number}\n" for number in range(1000))
    rows = _rows(tmp_path, text, "a")

    wanted = np.random.default_rng(0).integers(0, 1000, 60)
    assert rows.pick(wanted)[0].tolist() == wanted.tolist()
    assert rows.take(333, 340)[0].tolist() == list(range(333, 340))
    rows.close()


def test_a_table_that_changes_while_it_is_open_is_reported(tmp_path):
    rows = _rows(tmp_path, "a\n1\n2\n3\n", "a")
    (tmp_path / "a.csv").write_text("a\n")

    with pytest.raises(JobrunError, match="changed since"):
        rows.take(0, 3)
    rows.close()
