import pytest

from jobrun.core.errors import SpecError, UsageError
from jobrun.spec.resolve.overrides import applied, parse_override
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from tests.support.tables import each_case


def _parsed(text):
    override = parse_override(text, 1)
    return override.path, plain(override.value)


def _applied(body, *texts):
    root = read_document(body, "job.yaml").root
    for number, text in enumerate(texts, 1):
        root = applied(root, parse_override(text, number))
    return plain(root)


def _refused(body, text):
    with pytest.raises(SpecError) as caught:
        _applied(body, text)
    (fault,) = caught.value.faults
    assert str(fault.where) == "--set #1"
    return fault


@each_case(
    ("text", "path"),
    [
        ("seed=1", ("seed",)),
        ("params.k=1", ("params", "k")),
        ("stop[0].epochs=1", ("stop", 0, "epochs")),
        ("stop.0.epochs=1", ("stop", "0", "epochs")),
        ("a[0][12].b=1", ("a", 0, 12, "b")),
        ('nodes."a.b".count=1', ("nodes", "a.b", "count")),
        ('"x=y".z=1', ("x=y", "z")),
        ("a b.c-d=1", ("a b", "c-d")),
    ],
)
def test_paths(text, path):
    assert _parsed(text) == (path, 1)


@each_case(
    ("text", "value"),
    [
        ("12", 12), ("1e-4", 1e-4), ("no", "no"), ("true", True), ("", ""),
        ("a: b # c", "a: b # c"),
        ("a=b", "a=b"), ("'12'", "12"), ('"a\\tb"', "a\tb"), ("[1, a]", [1, "a"]), ("- a", "- a"),
        ("{epochs: 5}", {"epochs": 5}), ("null", None), ("010", "010"), ("x < 2", "x < 2"),
        ("*a", "*a"), ("!x", "!x"), ("two\nlines", "two\nlines"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_spec_language(text, value):
    parsed = _parsed(f"a={text}")[1]

    assert parsed == value
    assert type(parsed) is type(value)


@each_case(
    "text",
    ["", "seed", "=1", ".a=1", "a..b=1", "a.=1", "a[=1", "a[x]=1", "a[-1]=1", 'a."b=1', "[0"],
)
def test_what_is_no_path_and_value_is_a_usage_error(text):
    with pytest.raises(UsageError) as caught:
        parse_override(text, 2)
    (fault,) = caught.value.faults
    assert (fault.code, str(fault.where)) == ("E040", "--set #2")


def test_a_path_is_no_deeper_than_a_spec():
    with pytest.raises(UsageError):
        parse_override("a." * 10_000 + "a=1", 1)


@pytest.mark.parametrize("value", ["[1", "{a: 1", "'a", '"a\\q"', "[1] 2"])
def test_a_value_that_is_half_of_yaml_is_a_usage_error(value):
    with pytest.raises(UsageError) as caught:
        parse_override(f"a={value}", 1)
    assert caught.value.faults[0].code == "E041"


@pytest.mark.parametrize("value", ["1e999", "99999999999999999999", "[1e999]", "{a: 1, a: 2}"])
def test_a_value_that_is_wrong_is_a_fault_of_the_spec(value):
    with pytest.raises(SpecError) as caught:
        parse_override(f"a={value}", 1)
    assert str(caught.value.faults[0].where) == "--set #1"


def test_a_value_is_put_where_the_path_leads():
    body = "a: {b: [1, {c: 2}]}\nd: 3\n"

    assert _applied(body, "a.b[1].c=9") == {"a": {"b": [1, {"c": 9}]}, "d": 3}


def test_mappings_on_the_way_are_made():
    assert _applied("a: 1\n", "checkpoint.keep.last=3") == {
        "a": 1,
        "checkpoint": {"keep": {"last": 3}},
    }


def test_the_index_behind_the_last_adds_an_item():
    assert _applied("stop: [{epochs: 1}]\n", "stop[1].time=2h") == {
        "stop": [{"epochs": 1}, {"time": "2h"}]
    }


def test_a_number_may_be_a_key_of_a_mapping():
    assert _applied("a: {'0': x}\n", "a.0=y") == {"a": {"0": "y"}}


def test_later_ones_win():
    assert _applied("a: 1\n", "a=2", "a=3") == {"a": 3}


def test_the_given_tree_is_not_changed():
    root = read_document("a: {b: [1]}\n", "job.yaml").root

    applied(root, parse_override("a.b[0]=2", 1))

    assert plain(root) == {"a": {"b": [1]}}


def test_a_param_keeps_its_declaration():
    body = "params: {k: {type: int, default: 1, min: 0}, tol: 1e-4}\n"

    assert _applied(body, "params.k=5", "params.tol=1") == {
        "params": {
            "k": {"type": "int", "default": 5, "min": 0},
            "tol": {"default": 1, "type": "float"},
        }
    }


def test_a_part_of_a_declaration_may_be_set():
    assert _applied("params: {k: 1}\n", "params.k.min=0") == {
        "params": {"k": {"default": 1, "type": "int", "min": 0}}
    }


def test_a_param_may_be_set_by_its_bare_name():
    body = "params: {goal: {type: int, default: 1, min: 0}, seed: 3}\nseed: 5\n"

    assert _applied(body, "goal=9")["params"]["goal"] == {"type": "int", "default": 9, "min": 0}
    # A key of the spec is meant first, and an unknown one stays unknown.
    assert _applied(body, "seed=9") == {**_applied(body), "seed": 9}
    assert _applied(body, "gaol=9")["gaol"] == 9


def test_an_unknown_param_is_answered_with_the_nearest():
    fault = _refused("params: {rate: 1}\n", "params.rat=2")

    assert (fault.code, fault.mend) == ("E042", "did you mean 'rate'?")


def test_there_may_be_no_params():
    assert _refused("seed: 1\n", "params.k=2").code == "E042"


@pytest.mark.parametrize("text", ["a.b[3]=1", "a.b.x=1", "a.c.d=1", "a.b[0].x.y=1"])
def test_a_path_that_leads_nowhere_is_a_fault(text):
    fault = _refused("a: {b: [1], c: 2}\n", text)

    assert fault.code == "E043"
    assert fault.mend


def test_paths_of_files_are_reached_from_the_folder_of_the_spec():
    override = parse_override("epoch[2].steps[0].load.X=x.npy", 1).relative_to("../here")

    assert override.value.value == "../here/x.npy"


def test_other_values_stay_as_they_are():
    override = parse_override("description=x.npy", 1)

    assert override.relative_to("../here").value.value == "x.npy"
