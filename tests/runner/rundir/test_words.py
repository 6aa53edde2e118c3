"""Names of runs."""

from __future__ import annotations

from jobrun.core.text.names import FILE_NAME
from jobrun.runner.rundir.run_directories import _ADJECTIVES, _ANIMALS, random_name


def test_run_name_is_two_words_valid_in_a_path():
    assert all(FILE_NAME.fullmatch(random_name()) for _ in range(100))


def test_words_for_names_are_unique():
    words = [*_ADJECTIVES.split(), *_ANIMALS.split()]

    assert len(set(words)) == len(words)
