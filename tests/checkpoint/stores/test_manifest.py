from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.stores.manifest import decode, encode
from jobrun.core.errors import CheckpointError
from tests.support.tables import each_case

FILES = (
    StoredFile("a", "a.h5", 100, "sha256:" + "1" * 64),
    StoredFile("b_0", "b_0.h5", 0, "sha256:" + "2" * 64),
)
MANIFEST = Manifest(
    7, "run-1", 2, FILES, "sha256:" + "3" * 64, {"stop": [], "best": 0.1}, {"numpy": "2.0"}
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda part: st.lists(part, max_size=5) | st.dictionaries(st.text(), part, max_size=5),
    max_leaves=12,
)


def code_of(data: bytes) -> str:
    with pytest.raises(CheckpointError) as caught:
        decode(data, "manifest.json")
    (fault,) = caught.value.faults
    assert "manifest.json" in fault.message
    return fault.code


def resealed(fields: object) -> bytes:
    text = json.dumps(fields, sort_keys=True, indent=2).encode()
    digest = hashlib.sha256(text).hexdigest()
    return text[:-2] + f',\n  "sha256": "{digest}"\n}}\n'.encode()


def fields_of(manifest: Manifest) -> dict[str, object]:
    fields = json.loads(encode(manifest))
    del fields["sha256"]
    return fields


def test_manifest_round_trips():
    assert decode(encode(MANIFEST), "x") == MANIFEST
    assert resealed(fields_of(MANIFEST)) == encode(MANIFEST)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.dictionaries(st.text(), JSON, max_size=5))
def test_its_text_is_that_of_json_with_two_spaces_a_level(runner, environment):
    manifest = replace(MANIFEST, runner=runner, environment=environment)

    assert encode(manifest) == resealed(fields_of(manifest))


def test_it_is_plain_json_for_other_tools():
    fields = json.loads(encode(MANIFEST))

    assert fields["epoch"] == 7
    assert fields["files"][0]["name"] == "a.h5"
    assert encode(MANIFEST).endswith(b"\n")


@pytest.mark.long
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_runner_state_round_trips(state):
    manifest = replace(MANIFEST, runner=state)

    assert decode(encode(manifest), "x") == manifest


def test_every_change_of_one_byte_is_detected():
    data = encode(MANIFEST)

    for offset in range(len(data)):
        for bits in (1, 0x20, 0xFF):
            changed = bytearray(data)
            changed[offset] ^= bits
            assert code_of(bytes(changed)) == "E303"


def test_every_truncation_is_detected():
    data = encode(MANIFEST)

    for length in range(len(data)):
        assert code_of(data[:length]) == "E303"


def test_additions_are_detected():
    data = encode(MANIFEST)

    assert code_of(data + b"\n") == "E303"
    assert code_of(b" " + data) == "E303"
    assert code_of(data + data) == "E303"


def test_newer_format_is_an_error_with_its_number():
    assert code_of(resealed(fields_of(MANIFEST) | {"format": 2, "more": 1})) == "E308"


@each_case(
    "change",
    [
        {"extra": 1}, {"epoch": -1}, {"epoch": 1.0}, {"epoch": True}, {"run_id": 3},
        {"generation": "0"}, {"files": 3}, {"files": [3]}, {"files": [{}]}, {"runner": []},
        {"runner": None}, {"format": "1"}, {"spec_digest": None},
    ],
)  # fmt: skip
def test_fields_that_no_manifest_has_are_refused(change):
    assert code_of(resealed(fields_of(MANIFEST) | change)) == "E303"


@each_case(
    "change",
    [
        {"name": "../secret.h5"}, {"name": "/etc/passwd"}, {"name": "b_0.h5"}, {"node": "../a"},
        {"node": "..", "name": "...h5"}, {"size_bytes": -1}, {"digest": "md5:0"}, {"digest": ""},
        {"node": "b_0", "name": "b_0.h5"}, {"seconds": 1.0},
    ],
)  # fmt: skip
def test_files_that_no_manifest_has_are_refused(change):
    fields = fields_of(MANIFEST)
    fields["files"][0] |= change

    assert code_of(resealed(fields)) == "E303"


def test_other_ways_to_write_the_same_fields_are_refused():
    fields = fields_of(MANIFEST)
    text = json.dumps(dict(reversed(list(fields.items()))), indent=2).encode()
    digest = hashlib.sha256(text).hexdigest()

    assert code_of(text[:-2] + f',\n  "sha256": "{digest}"\n}}\n'.encode()) == "E303"


def test_deep_nesting_is_refused_without_harm():
    text = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"\n}"
    digest = hashlib.sha256(text).hexdigest()

    assert code_of(text[:-2] + f',\n  "sha256": "{digest}"\n}}\n'.encode()) == "E303"


def test_value_that_json_cannot_hold_is_a_defect():
    with pytest.raises(ValueError, match="JSON"):
        encode(replace(MANIFEST, runner={"best": float("nan")}))
