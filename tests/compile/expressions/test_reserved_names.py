from __future__ import annotations

import pytest

from jobrun.compile.expressions.reserved_names import FUNCTIONS, RESERVED, find_name_refusal
from jobrun.ops.operator_table import OPERATORS
from tests.support.tables import each_case


@each_case("word", ["sum", "rng", "iter", "epoch", "node", "pi", "float32", "if", "None", "stop"])
def test_words_of_the_language_are_no_names_for_blobs(word):
    refused = find_name_refusal(word, {})

    assert refused is not None
    assert (refused.code, refused.mend) == ("E151", f"write for example '{word}_'")


def test_a_param_and_a_blob_cannot_have_one_name():
    refused = find_name_refusal("k", {"k": 3})

    assert refused is not None
    assert refused.code == "E150"


@pytest.mark.parametrize("word", ["w", "loss", "shape", "size", "gradient", "indices", "f"])
def test_everyday_words_are_free(word):
    assert find_name_refusal(word, {"k": 3}) is None


def test_functions_of_later_versions_are_not_reserved():
    assert {name for name in FUNCTIONS if OPERATORS[name].since != 1} == set()
    assert FUNCTIONS <= RESERVED
