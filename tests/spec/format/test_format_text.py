"""Putting a spec in order: nothing lost, nothing changed, nothing to do the second time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.core.errors import SpecError
from jobrun.spec.format.format_text import comments, format_file, format_text
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
    pairs = value.items() if isinstance(value, dict) else ((None, one) for one in value)
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
        return "{" + ", ".join(f"{key}: {in_brackets(one)}" for key, one in value.items()) + "}"
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
        return {key: repr_of(one) for key, one in value.items()}
    return [repr_of(one) for one in value] if isinstance(value, list) else repr(value)


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


def test_what_is_no_yaml_is_told_as_everywhere(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("a: [1\n")

    with pytest.raises(SpecError, match="E005"):
        format_file(str(path))
    with pytest.raises(SpecError, match="E001"):
        format_file(str(tmp_path / "none.yaml"))
