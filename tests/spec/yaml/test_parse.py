import gc

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.core.errors import SpecError
from jobrun.spec.yaml import parse
from jobrun.spec.yaml.nodes import Mapping, plain
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.spec_text import decode
from tests.support.tables import each_case


def _read(text):
    return read_document(text, "job.yaml")


def _position(text, *path):
    node = _read(text).root
    for segment in path:
        node = node.values[segment] if isinstance(node, Mapping) else node.items[segment]
    return node.position[1:]


def test_a_document_becomes_plain_data():
    text = "a: 1\nb: [x, 1e-4, 'no', {c: ~}]\nd: |\n  two\n  lines\n"

    assert plain(_read(text).root) == {
        "a": 1,
        "b": ["x", 1e-4, "no", {"c": None}],
        "d": "two\nlines\n",
    }


@each_case(
    ("text", "position"),
    [
        ("a: word", (1, 4, 4, 4)),
        ("a:  word  # note", (1, 5, 4, 5)),
        ("a: 'word'", (1, 4, 6, 5)),
        ('a: "word"', (1, 4, 6, 5)),
        ('a: "w\\x6frd"', (1, 4, 9, 0)),
        ("a: 'it''s'", (1, 4, 7, 0)),
        ("a: &x word", (1, 4, 7, 7)),
        ("a: two\n  lines", (1, 4, 1, 0)),
        ("a: |\n  block", (1, 4, 1, 0)),
        ("ü: wört", (1, 4, 4, 4)),
        ("a: 12", (1, 4, 2, 4)),
        ("a:", (1, 1, 1, 1)),
        ("a: [1, 2]", (1, 4, 6, 0)),
        ("a: {b: 1}", (1, 4, 6, 0)),
        ("a: [1,\n 2]", (1, 4, 1, 0)),
        ("a:\n  bcd: 1\n  e: 2", (2, 3, 3, 0)),
        ("a:\n  - 1\n  - 2", (2, 3, 1, 0)),
    ],
)
def test_positions_of_values(text, position):
    assert _position(text, "a" if text[0] == "a" else "ü") == position


def test_places_of_keys():
    assert _read("a: 1\nb:\n  'c d': 2\n").root.values["b"].keys == {
        "c d": ("job.yaml", 3, 3, 5, 4)
    }


def test_places_count_lines_as_an_editor_does():
    assert _position("a: 1\r\n\r\nb: 2\r\n", "b") == (3, 4, 1, 4)


def test_an_alias_has_the_value_and_position_of_its_anchor():
    text = "a: &x {b: 1}\nc: *x\n"

    assert plain(_read(text).root) == {"a": {"b": 1}, "c": {"b": 1}}
    assert _position(text, "c", "b") == (1, 11, 1, 11)


def test_the_last_anchor_of_a_name_holds():
    assert plain(_read("a: &x 1\nb: &x 2\nc: *x\n").root)["c"] == 2


def test_merge_keys_give_way_to_the_mapping_and_to_earlier_ones():
    text = "a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {<<: [*a, *b], p: 3}\n"

    assert plain(_read(text).root)["c"] == {"p": 3, "q": 1, "r": 2}


def test_a_merged_key_may_be_written_behind_the_merge():
    assert plain(_read("a: &a {p: 1}\nc:\n  <<: *a\n  p: 2\n").root)["c"] == {"p": 2}


def test_a_quoted_merge_sign_is_a_key():
    assert plain(_read("a: {'<<': 1}\n").root) == {"a": {"<<": 1}}


def test_reading_continues_after_a_fault():
    document = _read("a: 1\na: 2\nb: !!str 3\n4: d\ne: *no\n")

    assert [fault.code for fault in document.faults] == ["E010", "E012", "E011", "E013"]


def test_faults_before_the_end_of_the_syntax_are_kept():
    with pytest.raises(SpecError) as caught:
        _read("a: 1\na: 2\nb: [\n")

    assert [fault.code for fault in caught.value.faults] == ["E010", "E005"]


def test_yaml_1_2_may_be_declared():
    assert plain(_read("%YAML 1.2\n---\na: 010\n").root) == {"a": "010"}


@pytest.mark.parametrize("head", ["%YAML 1.1", "%TAG ! tag:example.com,2000:"])
def test_other_directives_are_faults(head):
    assert len(_read(f"{head}\n---\na: 1\n").faults) == 1


def test_the_collector_is_as_it_was():
    assert gc.isenabled()
    _read("a: 1")
    assert gc.isenabled()
    gc.disable()
    try:
        _read("a: 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_comes_back_after_a_fault():
    with pytest.raises(SpecError):
        _read("a: [")
    assert gc.isenabled()


@pytest.fixture
def without_libyaml(monkeypatch):
    monkeypatch.setattr(yaml, "__with_libyaml__", False)


def test_without_libyaml_there_is_a_warning(without_libyaml):
    (warning,) = _read("a: 1").warnings

    assert (warning.code, warning.severity) == ("W100", "warning")


@pytest.mark.parametrize(
    "text",
    ["a: word", "a: 'it''s'\nb: \"w\\x6f\"",
     "a: &x [1, 010, {b: c}]\nd: *x\n", "a: |\n  b\nc: >\n d\n",
     "a:\n- b\n- c: 1\n  d:\n", "x: &x {p: 1}\ny: {<<: *x}\n", "a: two\n  lines\n"],
)  # fmt: skip
def test_without_libyaml_the_same_is_read(monkeypatch, text):
    with_it = _read(text)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)

    assert _read(text).root == with_it.root


@pytest.mark.parametrize("text", ["[" * 100_000, "a: [b", "- \t-\n\tx", "a: b: c", "&a [*a]"])
def test_without_libyaml_faults_are_faults(without_libyaml, text):
    with pytest.raises(SpecError):
        _read(text)


def _refused_or_read(text):
    faults = []
    try:
        _read(text)
    except SpecError as error:
        faults = [*error.faults]
        assert faults
    assert all(fault.where is not None and fault.mend for fault in faults)


SNIPPETS = st.lists(
    st.sampled_from(
        [
            "a",
            "b: ",
            "- ",
            "\n",
            "  ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "&a ",
            "*a",
            "<<: ",
            "!!str ",
            "'",
            '"',
            "|\n",
            ">-\n",
            "#",
            "? ",
            ": ",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "\t",
            "\\",
            "1e-4",
            "~",
            "${x}",
            "x = f(a, b)",
            "@",
            "`",
            "é",
        ]
    )
)


@given(SNIPPETS)
@settings(max_examples=60)
def test_pieces_of_yaml_are_read_or_refused(pieces):
    _refused_or_read("".join(pieces))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_or_refused(text):
    try:
        text = decode(text.encode(), "job.yaml")
    except SpecError:
        return
    _refused_or_read(text)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data):
    try:
        text = decode(data, "job.yaml")
    except SpecError as error:
        assert {fault.code for fault in error.faults} <= {"E003", "E004"}  # noqa: PT017 -- as above
        return
    _refused_or_read(text)


def test_pausing_the_collector_nests():
    with parse.collector_paused(), parse.collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
