"""Check how the package is written: first sentences, and words that hide what is meant."""

from __future__ import annotations

from pathlib import Path

from tests.support.prose import find_avoided_words, find_docstrings_without_verb, find_undocumented

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "jobrun").rglob("*.py"))
TEXTS = sorted([*MODULES, *(ROOT / "jobrun").rglob("*.md")])


def _check(reports: list[str]) -> None:
    assert not reports, f"{len(reports)} to mend:\n" + "\n".join(reports)


def test_docstrings_of_functions_begin_with_a_verb():
    _check(find_docstrings_without_verb(MODULES, ROOT))


def test_all_that_is_public_has_a_docstring():
    _check(find_undocumented(MODULES, ROOT))


def test_avoided_words_do_not_occur():
    _check(
        [
            report
            for path in TEXTS
            for report in find_avoided_words(path.read_text(), f"{path.relative_to(ROOT)}")
        ]
    )


def test_a_function_a_class_and_a_method_without_docstring_are_reported(tmp_path):
    path = tmp_path / "bare.py"
    path.write_text(
        "def one(): pass\nclass Two:\n    def three(self): pass\n    def _four(self): pass\n"
        "class Five(Two):\n    'A five.'\n    def three(self): pass\n"
        "class Six(foreign.Base):\n    'A six.'\n    def seven(self): pass\n"
    )

    reports = find_undocumented([path], tmp_path)

    assert [report.split(" is public")[0] for report in reports] == [
        "bare.py:1 one",
        "bare.py:2 Two",
        "bare.py:3 three",
    ]
    assert "write one sentence that begins with a verb" in reports[0]


def test_a_docstring_without_a_verb_is_reported_with_its_sentence_and_the_verb_to_write(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        'def f():\n    """Returns rows."""\ndef g():\n    """The number."""\n'
        'class C:\n    @property\n    def h(self):\n        """The size."""\n'
    )

    first, second = find_docstrings_without_verb([path], tmp_path)

    assert first == (
        "module.py:1 f\n    Returns rows.\n"
        "    'Returns' is no verb of tests/support/verbs.txt: begin with 'Return'"
    )
    assert second.startswith("module.py:3 g\n    The number.\n    'The' is no verb of")
    assert "'Return the number of rows.'" in second


def test_an_avoided_word_is_reported_with_its_line_and_the_word_to_write():
    assert find_avoided_words("Fine.\n  The run Goes On here.\nUntold.", "a.md") == [
        "a.md:2\n    The run Goes On here.\n    'goes on' is avoided: write 'continues'"
    ]
