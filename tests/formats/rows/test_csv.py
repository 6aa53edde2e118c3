from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats.rows import csv as row_tables
from jobrun.formats.rows.csv import TableRows


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
def test_ragged_tables_are_told_with_their_line(tmp_path, text, message):
    with pytest.raises(JobrunError, match=message):
        _rows(tmp_path, text, "a")


def test_text_in_a_matrix_is_told(tmp_path):
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


def test_a_table_that_changes_while_it_is_open_is_told(tmp_path):
    rows = _rows(tmp_path, "a\n1\n2\n3\n", "a")
    (tmp_path / "a.csv").write_text("a\n")

    with pytest.raises(JobrunError, match="changed since"):
        rows.take(0, 3)
    rows.close()
