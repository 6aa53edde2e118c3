from __future__ import annotations

import importlib

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jobrun.core.errors import JobrunError
from jobrun.formats import parquet as row_parquet
from jobrun.formats.headers import MemberInfo, describe, members
from jobrun.formats.load_save import read_member
from jobrun.formats.rows import open_rows


def _file(folder, columns, **more):
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet", **more)
    return str(folder / "a.parquet")


def test_the_schema_tells_what_a_column_is(tmp_path):
    lists = pyarrow.FixedSizeListArray.from_arrays(np.arange(6.0), 2)
    path = _file(tmp_path, {"i": [1, 2, 3], "x": lists, "t": ["a", "b", "c"]})

    assert members(path) == ("i", "x", "t")
    assert describe(path, "i") == MemberInfo("<i8", (3,))
    assert describe(path, "x") == MemberInfo("<f8", (3, 2))
    assert describe(path, "t") == MemberInfo("", ())


def test_a_whole_column_can_be_loaded(tmp_path):
    path = _file(tmp_path, {"i": [1, 2, 3]}, row_group_size=2)

    assert read_member(path, "i").tolist() == [1, 2, 3]


def test_words_of_a_dictionary_are_text(tmp_path):
    column = pyarrow.array(["b", "a", "b"]).dictionary_encode()
    rows = open_rows("parquet", _file(tmp_path, {"t": column}), ("t",))

    assert rows.take(0, 3)[0].tolist() == ["b", "a", "b"]
    rows.close()


def test_a_missing_number_is_nan_and_a_missing_integer_is_reported(tmp_path):
    path = _file(tmp_path, {"f": [1.0, None], "i": [1, None]})
    rows = open_rows("parquet", path, ("f",))

    assert np.isnan(rows.take(0, 2)[0][1])
    rows.close()
    with pytest.raises(JobrunError, match="1 of its values are missing"):
        open_rows("parquet", path, ("i",))


def test_a_column_without_a_dtype_is_reported(tmp_path):
    with pytest.raises(JobrunError, match="it holds list"):
        open_rows("parquet", _file(tmp_path, {"l": [[1], [2, 3]]}), ("l",))


def test_an_empty_file_has_no_rows_and_its_dtypes(tmp_path):
    path = _file(tmp_path, {"i": pyarrow.array([], pyarrow.int32())})
    rows = open_rows("parquet", path, ("i",))

    assert len(rows) == 0
    assert rows.take(0, 0)[0].dtype == np.int32
    rows.close()


def test_no_more_row_groups_are_kept_than_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(row_parquet, "_KEPT_BYTES", 100)
    path = _file(tmp_path, {"i": np.arange(100)}, row_group_size=10)
    rows = open_rows("parquet", path, ("i",))

    assert rows.pick(np.array([95, 5, 55]))[0].tolist() == [95, 5, 55]
    assert len(rows._kept) == 1
    rows.close()


def test_without_the_package_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    path = _file(tmp_path, {"i": [1]})

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(JobrunError, match="needs the package 'pyarrow'") as caught:
        row_parquet.open_file(path, ("i",))
    assert "jobrun[parquet]" in caught.value.faults[0].mend


def _structs(folder):
    table = pyarrow.table({
        "user": pyarrow.array([{"id": n, "pos": {"x": n / 2, "name": "ab"[: n % 3]}}
                               for n in range(7)]),
        "y": np.arange(7.0),
        "flat/name": np.arange(7),
    })  # fmt: skip
    parquet.write_table(table, folder / "s.parquet", row_group_size=3)
    return str(folder / "s.parquet")


def test_fields_of_a_struct_are_columns(tmp_path):
    path = _structs(tmp_path)
    rows = open_rows("parquet", path, ["user/pos/x", "y", "user/id", "flat/name", "user/pos/name"])
    actual = rows.pick(np.array([6, 0, 4]))
    rows.close()

    assert [column.tolist() for column in actual] == [
        [3.0, 0.0, 2.0],
        [6.0, 0.0, 4.0],
        [6, 0, 4],
        [6, 0, 4],
        ["", "", "a"],
    ]


def test_a_struct_is_no_column_and_its_fields_are_named(tmp_path):
    with pytest.raises(JobrunError, match=r"user/id, user/pos/x, user/pos/name"):
        open_rows("parquet", _structs(tmp_path), ["user"])
    with pytest.raises(JobrunError) as caught:
        open_rows("parquet", _structs(tmp_path), ["user/ix"])
    assert caught.value.faults[0].mend.startswith("did you mean 'user/id'?")


def test_headers_tell_of_fields_of_a_struct(tmp_path):
    path = _structs(tmp_path)

    assert describe(path, "user/pos/x") == MemberInfo("<f8", (7,))
    assert members(path)[:2] == ("user/id", "user/pos/x")
