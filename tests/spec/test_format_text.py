"""Putting a spec in order: nothing lost, nothing changed, nothing to do the second time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.core.errors import SpecError
from jobrun.spec.format_text import (
    Entries,
    EntryMover,
    Items,
    comments,
    format_file,
    format_text,
    tree_of,
)
from jobrun.spec.key_order import WHOLE
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from tests.support.thinning import examples

KEYS = (
    "jobrun", "name", "seed", "params", "init", "epoch", "stop", "task", "node", "steps", "read",
    "op", "in", "out", "loop", "as", "if", "then", "else", "x-a", "other", "tasks", "metrics",
)  # fmt: skip
LEAVES = ("1", "1e-4", "no", "a = b", '"x: # y"', "'it'", "", "~", ".nan", "&a1 z")


def values():
    leaf = st.sampled_from(LEAVES)
    return st.recursive(
        leaf,
        lambda below: st.one_of(
            st.lists(below, min_size=1, max_size=3),
            st.dictionaries(st.sampled_from(KEYS), below, min_size=1, max_size=5),
        ),
        max_leaves=14,
    )


def written(draw, value, indent):
    """Lines of a block; each place may get comments and blank lines."""
    pad = " " * indent
    lines = []
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, below in pairs:
        lines += draw(st.sampled_from([[], [], [], [""], [pad + "# above"], ["", pad + "# two"]]))
        head = pad + (f"{key}:" if key is not None else "-")
        behind = draw(st.sampled_from(["", "", "  # behind"]))
        if isinstance(below, str):
            lines.append(f"{head} {below}{behind}".rstrip())
        elif draw(st.booleans()) and draw(st.booleans()):
            lines.append(f"{head} {in_brackets(below)}{behind}")
        elif key is None and not behind:
            block = written(draw, below, indent + 2)
            first = next(
                number for number, line in enumerate(block) if line.strip(" ")[:1] not in {"", "#"}
            )
            if first == 0:
                lines += [f"{head} {block[0][indent + 2 :]}", *block[1:]]
            else:
                lines += [head, *block]
        else:
            lines += [head + behind, *written(draw, below, indent + 2)]
        lines += draw(st.sampled_from([[], [], [], [pad + "    # deep"]]))
    return lines


def in_brackets(value):
    if isinstance(value, str):
        return "z" if value == "" or "&" in value else value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {in_brackets(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(in_brackets, value)) + "]"


@st.composite
def texts(draw):
    value = draw(st.dictionaries(st.sampled_from(KEYS), values(), min_size=1, max_size=7))
    head = draw(st.sampled_from([[], ["# head"], ["# head", ""], ["", "---"]]))
    end = draw(st.sampled_from(["", "\n", "\n\n# end\n"]))
    return "\n".join([*head, *written(draw, value, 0)]) + end


def read(text):
    try:
        document = read_document(text, "f.yaml")
    except SpecError:
        return None
    return repr_of(plain(document.root)) if not document.faults else None


def repr_of(value):
    """Comparable, with types, whatever the order of keys."""
    if isinstance(value, dict):
        return {key: repr_of(item) for key, item in value.items()}
    return [repr_of(item) for item in value] if isinstance(value, list) else repr(value)


@pytest.mark.long
@given(texts())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_meaning_and_comments_stay_and_twice_is_once(text):
    check(text)


@pytest.mark.long
@given(texts())
@settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck))
def test_meaning_and_comments_stay_in_many_texts(text):
    check(text)


def check(text):
    before = read(text)
    if before is None:
        return
    done = format_text(text, "f.yaml")
    assert read(done) == before
    assert sorted(part.strip() for part in comments(done)) == sorted(comments(text))
    assert format_text(done, "f.yaml") == done


def test_values_keep_their_quotes_and_their_lines():
    text = "name: 'x'\njobrun: 1\ndescription: >\n  one  \n  two\n\n   # no comment\nseed: 0x1F\n"

    assert format_text(text, "f.yaml") == (
        "jobrun: 1\nname: 'x'\ndescription: >\n  one  \n  two\n\n   # no comment\nseed: 0x1F\n"
    )


def test_spaces_at_ends_of_lines_and_heaps_of_blank_lines_go():
    assert (
        format_text("\n\njobrun: 1  \n\n\n\n\nname: x\t\n\n\n", "f") == "jobrun: 1\n\n\nname: x\n"
    )


def test_lines_of_other_systems_become_plain():
    assert format_text("jobrun: 1\r\nname: x\r\n", "f.yaml") == "jobrun: 1\nname: x\n"


def test_kept_blank_lines_of_a_text_stay():
    text = "jobrun: 1\ndescription: |+\n  x\n\n\n\n\n"

    assert format_text(text, "f.yaml") == text


def test_an_anchor_never_comes_behind_its_alias():
    text = "stop: &s [epochs: 3]\njobrun: 1\ninit:\n  - task: *s\n"

    with pytest.raises(SpecError, match=r"E420.*f.yaml:4:11.*\*s"):
        format_text(text, "f.yaml")


def test_invalid_yaml_is_reported_as_elsewhere(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("a: [1\n")

    with pytest.raises(SpecError, match="E005"):
        format_file(str(path))
    with pytest.raises(SpecError, match="E001"):
        format_file(str(tmp_path / "none.yaml"))


def moved(text):
    return EntryMover(text, "f.yaml").whole(tree_of(text), WHOLE)


def test_comments_move_with_the_key_below_or_in_front_of_them():
    text = (
        "jobrun: 1\n# the stops\nstop:\n  - epochs: 3  # three\n    # deeper\n# the seed\nseed: 1\n"
    )

    assert moved(text) == (
        "jobrun: 1\n# the seed\nseed: 1\n# the stops\nstop:\n  - epochs: 3  # three\n    # deeper\n"
    )


def test_comments_above_the_first_key_belong_to_the_file():
    assert moved("# a file\nname: x\njobrun: 1\n") == "# a file\njobrun: 1\nname: x\n"


def test_blank_lines_stay_between_parts():
    text = "stop: [epochs: 3]\n\njobrun: 1\nname: x\n"

    assert moved(text) == "jobrun: 1\nname: x\n\nstop: [epochs: 3]\n"


def test_the_first_key_behind_a_dash_changes_its_place_with_another():
    text = "epoch:\n  - steps: [a]\n    # which\n    task: t\n"

    assert moved(text) == "epoch:\n  # which\n  - task: t\n    steps: [a]\n"


def test_in_brackets_keys_change_places_and_commas_stay():
    text = "epoch: [{steps: [{out: c,  op: add, in: [a, b]}], task: t}]\n"

    assert moved(text) == "epoch: [{task: t, steps: [{op: add,  in: [a, b], out: c}]}]\n"


def test_a_comment_between_brackets_is_not_torn_away():
    text = "epoch:\n  - {steps: [a],  # these\n     task: t}\n"

    with pytest.raises(SpecError, match=r"E420.*f.yaml:2:5.*comment"):
        moved(text)


def test_a_key_behind_a_question_mark_is_not_moved():
    with pytest.raises(SpecError, match=r"E420.*f.yaml:1:3"):
        moved("? name\n: x\n? jobrun\n: 1\n")


def test_each_key_and_value_knows_its_text():
    text = "a: 1\nb:\n  - x y\n  - {c: [d]}\n"
    tree = tree_of(text)

    assert isinstance(tree, Entries)
    assert [text[key.span.start : key.span.end] for key in tree.keys] == ["a", "b"]
    items = tree.values[1]
    assert isinstance(items, Items)
    assert [text[item.span.start : item.span.end] for item in items.items] == ["x y", "{c: [d]}"]
    assert (tree.span.last_line, items.span.line, items.span.column) == (3, 2, 2)


def test_an_anchor_does_not_move_where_a_block_begins():
    tree = tree_of("a: &x   # here\n  b: 1\nc: &y\n  - 1\n")

    assert [(value.span.line, value.span.column) for value in tree.values] == [(1, 2), (3, 2)]


def test_a_block_of_text_ends_with_its_last_line_unless_blank_lines_are_kept():
    assert tree_of("a: |\n  x\n\n\nb: 1\n").values[0].span.last_line == 1
    assert tree_of("a: |+\n  x\n\n\nb: 1\n").values[0].span.last_line == 3
