from jobrun.spec.resolve.merge import deep_merge, long_form, merge_specs, replaced
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document


def _tree(text, file="job.yaml"):
    return read_document(text, file).root


def _merged(base, over):
    return plain(merge_specs(_tree(base), _tree(over)))


def test_mappings_are_merged_key_by_key_and_the_rest_replaced():
    merged = deep_merge(_tree("a: {b: 1, c: [1, 2]}\nd: 1"), _tree("a: {c: [3], e: 4}\nd: {x: 1}"))

    assert plain(merged) == {"a": {"b": 1, "c": [3], "e": 4}, "d": {"x": 1}}


def test_each_value_keeps_the_file_it_came_from():
    merged = deep_merge(_tree("a: {b: 1}", "one"), _tree("a: {c: 2}", "two"))

    assert merged.values["a"].values["b"].place[0] == "one"
    assert merged.values["a"].keys["c"][0] == "two"


def test_nothing_that_was_merged_is_changed():
    base, over = _tree("a: {b: 1}"), _tree("a: {c: 2}")

    deep_merge(base, over)

    assert (plain(base), plain(over)) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_plain_value_for_a_param_keeps_its_bounds():
    assert _merged("params: {k: {default: 1, min: 0}}", "params: {k: 5}") == {
        "params": {"k": {"default": 5, "min": 0}}
    }


def test_a_plain_value_for_a_plain_param_keeps_its_type():
    assert _merged("params: {tol: 1e-4, n: 1}", "params: {tol: 1}") == {
        "params": {"tol": {"default": 1, "type": "float"}, "n": 1}
    }


def test_the_long_form_over_a_plain_value_keeps_the_value():
    assert _merged("params: {k: 1}", "params: {k: {max: 9}}") == {
        "params": {"k": {"default": 1, "type": "int", "max": 9}}
    }


def test_a_reference_has_no_type_to_keep():
    assert plain(long_form(_tree("a: ${env:X}").values["a"])) == {"default": "${env:X}"}


def test_replacing_keeps_the_order_of_keys():
    tree = _tree("a: 1\nb: 2")

    assert list(replaced(tree, "a", tree.values["b"]).values) == ["a", "b"]
