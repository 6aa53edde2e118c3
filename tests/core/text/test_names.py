import pytest

from jobrun.core.text.names import BLOB_NAME, FILE_NAME, did_you_mean, nearest
from tests.support.tables import each_case


@pytest.mark.parametrize("name", ["a", "A_9", "trainer_0", "v1.2-rc", "_x", "0", "a" * 64])
def test_file_names_that_are_names(name):
    assert FILE_NAME.fullmatch(name)


@each_case(
    "name",
    ["", ".", "..", "../x", "/etc/x", "a/b", ".tmp-x", "-x", "a b", "a\n", "a\x00", "\x1b[31m",
     "a" * 65, "naïve", "con:"],
)  # fmt: skip
def test_file_names_that_are_not(name):
    assert not FILE_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["a", "w_1", "_t", "λ", "été"])
def test_blob_names_that_are_names(name):
    assert BLOB_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a.b", "a b", "a" * 65])
def test_blob_names_that_are_not(name):
    assert not BLOB_NAME.fullmatch(name)


def test_the_nearest_name_is_the_one_a_person_meant():
    assert nearest("wen", ["epochs", "when", "time"]) == "when"


def test_nothing_is_nearest_when_nothing_is_close():
    assert nearest("zzz", ["epochs", "when"]) is None


def test_a_text_far_longer_than_names_is_near_to_nothing():
    assert nearest("a" * 10_000_000, ["a" * 64]) is None


def test_an_unknown_name_is_answered_with_the_nearest():
    assert did_you_mean("lern", ["learn", "k"]) == "did you mean 'learn'?"


def test_an_unknown_name_is_answered_with_all_when_none_is_close():
    assert did_you_mean("zzz", ["b", "a"]) == "known here: a, b"


def test_a_long_list_of_names_is_cut():
    assert did_you_mean("zzz", [f"n{i:02}" for i in range(30)]).endswith("n11, …")


def test_there_may_be_none_to_choose_from():
    assert did_you_mean("k", []) == "there is none to choose from"
