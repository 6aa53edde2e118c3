from __future__ import annotations

import pytest

from jobrun.spec.resolve import include
from jobrun.spec.resolve.include import SpecReader, deep_merge, long_form, merge_specs, replaced
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from tests.support.specs import write


def _tree(folder, name="job.yaml", base=None):
    reader = SpecReader()
    tree = reader.tree(str(folder / name), base or str(folder))
    return reader, plain(tree) if tree is not None else None


def test_the_including_file_wins_over_its_includes_and_later_ones_over_earlier(tmp_path):
    write(tmp_path, "include: [a.yaml, b.yaml]\nx: main\n")
    write(tmp_path, "x: a\ny: a\nz: a\n", "a.yaml")
    write(tmp_path, "x: b\ny: b\n", "b.yaml")

    reader, tree = _tree(tmp_path)

    assert tree == {"x": "main", "y": "b", "z": "a"}
    assert reader.faults == []
    assert len(reader.files) == 3


def test_mappings_are_merged_and_lists_replaced(tmp_path):
    write(tmp_path, "include: [a.yaml]\nnodes: {b: {}}\nstop: [{epochs: 2}]\n")
    write(tmp_path, "nodes: {a: {}}\nstop: [{epochs: 1}, {time: 1h}]\n", "a.yaml")

    assert _tree(tmp_path)[1] == {"nodes": {"a": {}, "b": {}}, "stop": [{"epochs": 2}]}


def test_includes_are_named_from_the_file_that_includes(tmp_path):
    write(tmp_path, "include: [sub/a.yaml]\n")
    write(tmp_path, "include: [b.yaml]\n", "sub/a.yaml")
    write(tmp_path, "seed: 3\n", "sub/b.yaml")

    assert _tree(tmp_path)[1] == {"seed": 3}


def test_paths_of_an_included_file_start_from_its_folder(tmp_path):
    write(tmp_path, "include: [sub/a.yaml]\nreaders: {own: {npz: own.npz}}\n")
    write(tmp_path, "readers: {r: {npz: ../data/x.npz}, s: {csv: /abs.csv}}\n", "sub/a.yaml")

    assert _tree(tmp_path)[1]["readers"] == {
        "own": {"npz": "own.npz"},
        "r": {"npz": "data/x.npz"},
        "s": {"csv": "/abs.csv"},
    }


def test_a_file_may_be_included_twice(tmp_path):
    write(tmp_path, "include: [a.yaml, b.yaml]\n")
    write(tmp_path, "include: [c.yaml]\n", "a.yaml")
    write(tmp_path, "include: [c.yaml]\n", "b.yaml")
    write(tmp_path, "seed: 3\nseed: 4\n", "c.yaml")

    reader, tree = _tree(tmp_path)

    assert tree == {"seed": 3}
    assert [fault.code for fault in reader.faults] == ["E010"]


@pytest.mark.parametrize("names", [["job.yaml"], ["a.yaml"], ["./sub/../job.yaml"]])
def test_a_cycle_is_a_fault_at_the_include(tmp_path, names):
    (tmp_path / "sub").mkdir()
    write(tmp_path, f"include: [{names[0]}]\n")
    write(tmp_path, "include: [job.yaml]\n", "a.yaml")

    reader, _ = _tree(tmp_path)

    (fault,) = reader.faults
    assert fault.code == "E034"
    assert "includes itself" in fault.message


def test_a_missing_include_is_reported_at_the_include(tmp_path):
    write(tmp_path, "jobrun: 1\ninclude: [no.yaml]\n")

    (fault,) = _tree(tmp_path)[0].faults

    assert (fault.code, fault.where.line, fault.where.column) == ("E034", 2, 11)
    assert "no.yaml" in fault.message


def test_faults_of_all_files_are_collected(tmp_path):
    write(tmp_path, "include: [a.yaml, b.yaml]\n")
    write(tmp_path, "[", "a.yaml")
    write(tmp_path, "- x\n", "b.yaml")

    assert [fault.code for fault in _tree(tmp_path)[0].faults] == ["E005", "E009"]


@pytest.mark.parametrize("value", ["a.yaml", "{a: b}", "[1]", "['']", "[[a.yaml]]"])
def test_include_is_a_list_of_names(tmp_path, value):
    write(tmp_path, f"include: {value}\n")
    write(tmp_path, "seed: 1\n", "a.yaml")

    assert [fault.code for fault in _tree(tmp_path)[0].faults] == ["E034"]


def test_private_keys_are_dropped(tmp_path):
    write(tmp_path, "x-a: &a {seed: 1}\n<<: *a\nx-b: 3\n")

    assert _tree(tmp_path)[1] == {"seed": 1}


def test_the_number_of_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(include, "MOST_FILES", 3)
    write(tmp_path, "include: [a.yaml, b.yaml, c.yaml]\n")
    for name in "abc":
        write(tmp_path, "seed: 1\n", f"{name}.yaml")

    (fault,) = _tree(tmp_path)[0].faults

    assert "more than 3 files" in fault.message


def _root(text, file="job.yaml"):
    return read_document(text, file).root


def _merged(base, over):
    return plain(merge_specs(_root(base), _root(over)))


def test_mappings_are_merged_key_by_key_and_the_rest_replaced():
    merged = deep_merge(_root("a: {b: 1, c: [1, 2]}\nd: 1"), _root("a: {c: [3], e: 4}\nd: {x: 1}"))

    assert plain(merged) == {"a": {"b": 1, "c": [3], "e": 4}, "d": {"x": 1}}


def test_each_value_keeps_the_file_it_came_from():
    merged = deep_merge(_root("a: {b: 1}", "one"), _root("a: {c: 2}", "two"))

    assert merged.values["a"].values["b"].position[0] == "one"
    assert merged.values["a"].keys["c"][0] == "two"


def test_nothing_that_was_merged_is_changed():
    base, over = _root("a: {b: 1}"), _root("a: {c: 2}")

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
    assert plain(long_form(_root("a: ${env:X}").values["a"])) == {"default": "${env:X}"}


def test_replacing_keeps_the_order_of_keys():
    tree = _root("a: 1\nb: 2")

    assert list(replaced(tree, "a", tree.values["b"]).values) == ["a", "b"]
