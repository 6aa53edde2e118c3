import random
import string

import pytest

from jobrun.core.errors import SpecError
from jobrun.spec.yaml import parse, repeated_items, tree_builder
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.pyyaml import parser_events
from jobrun.spec.yaml.repeated_items import find_repeated_items
from jobrun.spec.yaml.tree_builder import Builder

# Items as specs have them, and items that are hard to repeat: words of which change a meaning, or
# which end elsewhere than their indentation says.
ITEMS = (
    "- task: w1\n  needs: [w0, w2]\n  steps:\n  - t = x1 * 2\n  - {op: f, in: [t, 0], out: y}\n",
    "- {task: w1, steps: [x1 = 1.5, 'y = f(x, 1)', z = f(x1, 2)]}\n",
    "- {task: w1, steps: ['a = x1', \"b = x1\", 'it''s', \"\\x41b\"]}\n",
    "- a: 1\n  b: true\n  c:\n  d: ~\n  e: null\n  f: 0x1F\n  g: 1e5\n  h: .5\n  i: -12\n",
    "-   a: é w1\n    # a comment of w1\n\n    b: 'x'\n",
    "- a: x1   # w1\n  bb: [1, [2, {c: 3}], []]\n",
    "- - a1\n  - b1: 2\n    c1: 3\n",
    "- task: one\n  steps:\n  - x = y +\n      z1\n",
    "- run: |\n    - a: 1\n      b: 2\n    - a: 1\n      b: 3\n",
    "- run: >-\n    - a: 1\n      b: 2\n  b: 1\n",
    "- a: &x1 [1, 2]\n  b: *x1\n",
    "- a: &x1 {p: 1}\n  <<: *x1\n  b: 2\n",
    "- {<<: {a: 1, b: 2}, b: 3}\n",
    "- a: 1\n  b: 2\n# between\n",
    "- a: 1\n# inside\n  b: 2\n",
    "- a: [1,\n   2]\n  b: 'x\n    y'\n",
    "- a: !!str 1\n  b: 2\n",
    "- ? a\n  : b\n",
    "- a: 99999999999999999999\n  b: 1\n",
    "- a: [f(x, y), 1]\n  b: 1\n",
)
NUMBER = 12


@pytest.fixture(autouse=True)
def _of_any_length(monkeypatch):
    monkeypatch.setattr(parse, "_LEAST_LENGTH", 0)
    monkeypatch.setattr(repeated_items, "_FEWEST_ITEMS", 1)


def _other(item, rng):
    """The item with other letters and digits, sometimes of another length."""

    def other(letter):
        if letter in string.digits:
            return rng.choice(string.digits)
        return rng.choice("abtxy_") if letter in string.ascii_letters else letter

    share_kept = rng.random()
    return "".join(
        other(character) if rng.random() > share_kept else character for character in item
    )


def _whole(text):
    """What the parser makes of the whole text: its tree with places, or its faults."""
    builder = Builder("job.yaml", text)
    builder.read(parser_events(text))
    return repr(builder.root), builder.faults


def _is_same(text):
    try:
        document = read_document(text, "job.yaml")
    except SpecError as error:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parse, "_read_large", lambda *_: None)
            with pytest.raises(SpecError) as whole:
                read_document(text, "job.yaml")
        return error.faults == whole.value.faults
    return (repr(document.root), list(document.faults)) == _whole(text)


def test_an_item_of_the_shape_of_an_earlier_one_is_not_parsed():
    text = "tasks:\n" + "".join(ITEMS[0].replace("1", str(number)) for number in range(1, 10))

    repeated = find_repeated_items(text)

    assert [*repeated.marked] == list(range(7, 47, 5))
    assert "x9" not in repeated.text
    assert repeated.text.count("\n") == text.count("\n")
    assert _is_same(text)


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("head", ["", "a:\n", "a: &b\n", "a: |\n  b\n", "a: 'b\n"])
def test_repeated_items_have_the_tree_that_the_parser_makes(item, head):
    rng = random.Random(item)
    for indentation in ("", "  "):
        for _ in range(6):
            items = [item, *(_other(item, rng) for _ in range(rng.randrange(1, NUMBER)))]
            body = "".join(items).replace("\n", "\n" + indentation).rstrip(" ")
            text = head + indentation + body + rng.choice(["", "b: 1\n", "...\n"])
            assert _is_same(text), text
            assert _is_same(text.rstrip("\n")), text


def test_items_of_different_shapes_may_be_mixed():
    rng = random.Random(1)
    for _ in range(100):
        kinds = rng.sample(ITEMS, 3)
        items = [_other(rng.choice(kinds), rng) for _ in range(NUMBER)]
        text = "a:\n" + "".join(items) + "b:\n" + "".join(reversed(items))
        assert _is_same(text), text


def test_the_items_of_a_single_item_may_repeat_each_other():
    steps = "".join(f"  - {{op: f, in: [x{number}], out: y}}\n" for number in range(10))
    text = "tasks:\n- task: a\n  steps:\n" + steps

    assert len(find_repeated_items(text).marked) == 9
    assert _is_same(text)


@pytest.mark.parametrize(
    "other",
    [
        "- {a: 1, a: 2}\n",
        "- {a: 1, 2: 2}\n",
        "- {a: 1, 'c': 2}\n",
        "- {d: 1, c: 2}\n",
        "- {a: 1, y: x}\n",
    ],
)
def test_other_keys_are_judged_as_those_of_the_first(other):
    assert _is_same("- {a: 1, b: 2}\n" * 3 + other)


def test_the_budget_of_values_counts_repeated_items(monkeypatch):
    text = ITEMS[0] * 5

    monkeypatch.setattr(tree_builder, "MOST_VALUES", 66)
    assert _is_same(text)
    assert read_document(text, "job.yaml").faults == ()
    monkeypatch.setattr(tree_builder, "MOST_VALUES", 65)
    with pytest.raises(SpecError, match="more than 65 values") as stop:
        read_document(text, "job.yaml")
    assert stop.value.faults[0].where.line == 25


def test_items_nested_in_each_other_are_not_kept_with_each_around_them():
    nested = "".join(f"{'  ' * depth}- a{depth}:\n" for depth in range(400))

    assert find_repeated_items(nested + ITEMS[0] * 5) is None
    assert find_repeated_items(ITEMS[0] * 5) is not None


def test_a_text_with_the_mark_itself_is_parsed_as_it_is():
    assert find_repeated_items(f"a: {repeated_items.MARK}\nb:\n" + ITEMS[0] * 5) is None
