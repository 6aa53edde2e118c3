"""Reading JSON that anybody may have written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from msgspec import Struct, field

from jobrun.core.files.json_files import build, build_encoder, parse_json, read_json
from tests.support.tables import each_case


class Inner(Struct, frozen=True):
    x: float


class Record(Struct, frozen=True):
    name: str
    count: int = 0
    kind: Literal["a", "b"] = "a"
    exit_code: int | None = None
    inner: Inner | None = None
    pairs: tuple[tuple[str, float | int | bool | str], ...] = ()
    words: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


def test_a_record_is_built_of_values_of_its_types_and_other_keys_are_left_out():
    content = {
        "name": "n", "count": 3, "kind": "b", "exit_code": None, "inner": {"x": 1, "y": 2},
        "pairs": [["loss", "nan"], ["word", "good"], ["n", 2]], "words": ["w"],
        "facts": {"any": [1]}, "digests": {"a": "b"}, "newer": [],
    }  # fmt: skip
    record = build(Record, content)

    assert (record.name, record.count, record.kind, record.inner) == ("n", 3, "b", Inner(1.0))
    assert record.pairs[0][1] != record.pairs[0][1]
    assert record.pairs[1:] == (("word", "good"), ("n", 2))
    assert record.words == ("w",)


@each_case(
    ("field_name", "value"),
    [
        ("name", 3), ("name", None), ("count", "3"), ("count", 3.0), ("count", True),
        ("count", 1 << 63), ("count", float("inf")), ("kind", "c"), ("kind", [[]]),
        ("exit_code", []), ("inner", {"x": "1"}), ("inner", {"x": float("nan")}), ("inner", {}),
        ("pairs", [["a"]]), ("pairs", [[1, 2]]), ("pairs", [["a", [1]]]), ("pairs", 3),
        ("words", "text"), ("words", [1]), ("facts", 3), ("digests", {"a": 1}),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_the_name_of_its_field(field_name, value):
    with pytest.raises(ValueError, match=f"field '{field_name}'"):
        build(Record, {"name": "n", field_name: value})


@pytest.mark.parametrize("content", [None, [], "text", 3, {}])
def test_what_is_no_object_or_lacks_a_field_is_refused(content):
    with pytest.raises(ValueError, match=r"no JSON object|field 'name' is missing"):
        build(Record, content)


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_json_deeper_than_anything_of_ours_is_refused(depth):
    with pytest.raises(ValueError, match="deeper than 100 levels"):
        parse_json("[" * depth + "]" * depth)


def test_wide_json_is_read_and_so_is_json_of_a_hundred_levels():
    assert parse_json("[" * 100 + "]" * 100)
    assert len(parse_json(b"[" + b"[1]," * 5000 + b"2]")) == 5001


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "f")

    with pytest.raises(OSError, match="no regular file"):
        read_json(tmp_path / "f")


def test_a_file_that_is_too_long_is_refused_unread(tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(OSError, match="longer than"):
        read_json(tmp_path / "f")


@pytest.mark.parametrize("has_c_encoder", [True, False])
def test_an_encoder_made_once_encodes_as_json_does(monkeypatch, has_c_encoder):
    if not has_c_encoder:
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    value = {"b": [1, 2.5, None, True, '\u00e4"\n'], "a": {}, "c": (1, [])}

    assert build_encoder(sort_keys=True)(value) == json.dumps(value, sort_keys=True)
    compact = build_encoder(separators=(",", ":"), ensure_ascii=False, default=sorted)
    assert compact({"x": {3}, "\u00e4": 1}) == '{"x":[3],"\u00e4":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        build_encoder()([float("nan")])
