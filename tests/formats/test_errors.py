from __future__ import annotations

from jobrun.formats import errors as faults
from tests.support.tables import each_case


def test_a_missing_file_offers_the_nearest_name(tmp_path):
    (tmp_path / "digits.npz").write_text("")

    (fault,) = faults.missing_file(str(tmp_path / "digit.npz")).faults

    assert fault.mend == "did you mean 'digits.npz'?"


def test_a_missing_folder_is_named(tmp_path):
    (fault,) = faults.missing_file(str(tmp_path / "dta" / "x.npy")).faults

    assert str(tmp_path / "dta") in fault.mend


@each_case(
    "error",
    [
        faults.missing_member("f.npz", "a", ["b"]),
        faults.unnamed_member("f.npz", []),
        faults.unnamed_member("f.npz", ["a", "b"]),
        faults.no_members("f.npy", "a"),
        faults.unreadable("f.npy", "why"),
        faults.no_format("f.parquet"),
        faults.no_format("f"),
        faults.holds_objects("f.npy"),
        faults.hostile("f.h5", "a", "why"),
        faults.unwritable("f.csv", "a", "why", "mend"),
    ],
)
def test_each_fault_names_the_file_and_a_mend(error):
    (fault,) = error.faults

    assert "f" in fault.message
    assert fault.mend


def test_many_members_are_not_all_listed():
    (fault,) = faults.unnamed_member("f.npz", [f"m{number}" for number in range(100)]).faults

    assert fault.mend.endswith("…")
