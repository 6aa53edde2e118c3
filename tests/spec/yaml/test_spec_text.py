from pathlib import Path

import pytest

from jobrun.core.errors import SpecError
from jobrun.spec.yaml import spec_text as files
from jobrun.spec.yaml.spec_text import decode, read_text


def _fault(call, *args):
    with pytest.raises(SpecError) as caught:
        call(*args)
    return caught.value.faults[0]


def test_text_is_read_unchanged(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes("a: é\r\nb: \t1\n".encode())

    assert read_text(str(path), "job.yaml") == "a: é\r\nb: \t1\n"


def test_faults_use_the_name_the_user_knows(tmp_path):
    fault = _fault(read_text, str(tmp_path / "no.yaml"), "specs/no.yaml")

    assert str(fault.where) == "specs/no.yaml"
    assert str(tmp_path) in fault.mend


@pytest.mark.parametrize("name", ["walk", "walk.yml", "wakl.yaml"])
def test_a_missing_file_gets_the_nearest_spec_of_its_folder(name, tmp_path):
    (tmp_path / "walk.yaml").touch()

    with pytest.raises(SpecError, match="did you mean") as raised:
        read_text(str(tmp_path / name), name)

    assert f"'{tmp_path / 'walk.yaml'}'" in raised.value.faults[0].mend


def test_a_program_in_place_of_a_spec_is_answered_with_the_command_that_takes_it_in(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")

    with pytest.raises(SpecError, match=r"E001.*is a program, not a spec") as raised:
        read_text(str(tmp_path / "train.py"), "train.py")

    assert "jobrun new script" in raised.value.faults[0].mend


def test_a_missing_folder_is_reported():
    assert _fault(read_text, "/no/such/folder/job.yaml", "job.yaml").mend == "check its directory"


@pytest.mark.parametrize("name", ["a\x00b", "a" * 300])
def test_names_that_no_file_can_have(name):
    assert _fault(read_text, name, "job.yaml").code == "E001"


def test_a_file_of_exactly_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_FILE_BYTES", 8)
    (tmp_path / "a").write_text("a: 12345")
    (tmp_path / "b").write_text("a: 123456")

    assert read_text(str(tmp_path / "a"), "a") == "a: 12345"
    assert _fault(read_text, str(tmp_path / "b"), "b").code == "E002"


def test_a_file_in_proc_that_says_it_is_empty_is_bounded(monkeypatch):
    monkeypatch.setattr(files, "LARGEST_FILE_BYTES", 8)

    assert _fault(read_text, "/proc/self/status", "status").code == "E002"


def test_no_descriptor_is_left_open(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in (tmp_path, tmp_path / "no"):
        _fault(read_text, str(name), "x")

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_bad_byte_is_reported_by_line_and_column():
    fault = _fault(decode, "a: é\nb: ".encode() + b"\xff", "job.yaml")

    assert str(fault.where) == "job.yaml:2:4"
    assert "0xff" in fault.message


def test_half_a_character_at_the_end_is_a_bad_byte():
    assert str(_fault(decode, "a: é".encode()[:-1], "job.yaml").where) == "job.yaml:1:4"


def test_up_to_ten_hidden_characters_are_reported():
    with pytest.raises(SpecError) as caught:
        decode(b"a: \x01\x02\nb: \x03", "job.yaml")
    assert [str(fault.where) for fault in caught.value.faults] == [
        "job.yaml:1:4",
        "job.yaml:1:5",
        "job.yaml:2:4",
    ]

    with pytest.raises(SpecError) as caught:
        decode(b"\x01" * 1000, "job.yaml")
    assert len(caught.value.faults) == 10


def test_letters_of_all_scripts_are_welcome():
    text = "a: λ 名前 עברית 🎲 e\u0301 \u00a0\n"

    assert decode(text.encode(), "job.yaml") == text
