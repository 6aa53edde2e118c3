import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobrun.spec.dump import dump_resolved, dump_tree, spec_digest
from jobrun.spec.load import load_spec
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.spec_text import read_text
from tests.support.specs import load, write

BODY = """\
# a comment
params: {k: 3, tol: 1e-9, who: "no", path: "${env:HERE,x}"}
seed: 7
nodes: {a: {props: {"1": one, note: "line one\\nline two"}}}
epoch:
  - {task: t, steps: ["x = f(a, b)", {log: "k ${k} {x:.3g}"}], timeout: 90s}
stop: [{when: "x < ${tol}"}, {epochs: "${k}"}]
"""


def _again(folder, loaded, name="again/job.yaml"):
    return load_spec(
        write(folder, dump_resolved(loaded), name), folder=loaded.folder, environment={}
    )


def test_the_dumped_spec_loads_to_the_same_job(tmp_path):
    loaded = load(tmp_path, BODY)

    again = _again(tmp_path, loaded)

    assert again.spec == loaded.spec
    assert again.params == loaded.params
    assert spec_digest(again) == spec_digest(loaded)


def test_a_second_dump_is_the_same_text(tmp_path):
    loaded = load(tmp_path, BODY)

    assert dump_resolved(_again(tmp_path, loaded)) == dump_resolved(loaded)


def test_overrides_are_part_of_the_dump(tmp_path):
    loaded = load(tmp_path, BODY, "params.k=5", "params.tol=1", "stop[0].when=x < 2")

    again = _again(tmp_path, loaded)

    assert again.params == {"k": 5, "tol": 1.0, "who": "no", "path": "x"}
    assert again.spec == loaded.spec


def test_references_stay_references(tmp_path):
    text = dump_resolved(load(tmp_path, "description: ${env:TOKEN}\n", TOKEN="hunter2"))

    assert "${env:TOKEN}" in text
    assert "hunter2" not in text


def test_identity_comes_first(tmp_path):
    path = write(tmp_path, "seed: 1\nname: last\njobrun: 1\n")

    assert dump_resolved(load_spec(path)).startswith("jobrun: 1\nname: last\nseed: 1\n")


def test_no_line_is_folded(tmp_path):
    long = "word " * 200 + "end"

    assert f"description: {long}\n" in dump_resolved(load(tmp_path, f"description: {long}\n"))


def test_what_is_shared_is_written_twice(tmp_path):
    body = "x-s: &s [a = 1]\nepoch: [{task: t, steps: *s}, {task: u, steps: *s}]\n"

    text = dump_resolved(load(tmp_path, body))

    assert "&" not in text
    assert text.count("a = 1") == 2


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["no", "010", "1_000", "1:30", "1e-4", "null", "~", "<<", "=", "2001-12-14"])
)
TREES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("abc1~"), inner, max_size=4)
        ),
        max_leaves=8,
    ),
)


@pytest.mark.long
@given(TREES)
def test_any_tree_comes_back_value_by_value(tree):
    document = read_document(dump_tree(tree), "dumped")

    assert document.faults == ()
    assert repr(plain(document.root)) == repr(tree)


@pytest.mark.parametrize("char", ["\u202e", "\u2066", "\u200f", "\u061c", "\ufeff", "\x85", "\x07"])
def test_what_our_reader_refuses_is_escaped(char, tmp_path):
    path = tmp_path / "dumped.yaml"
    path.write_text(dump_tree({f"a{char}": f"b{char}\nc"}))

    document = read_document(read_text(str(path), "dumped"), "dumped")

    assert plain(document.root) == {f"a{char}": f"b{char}\nc"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_older_readers_see_the_same_text(value):
    assert yaml.safe_load(dump_tree({"a": value})) == {"a": value}


@pytest.mark.parametrize("number", [1e-5, 1e22, -0.0, math.inf, 5e-324, 0.1])
def test_older_readers_see_the_same_float(number):
    again = yaml.safe_load(dump_tree({"a": number}))["a"]

    assert repr(again) == repr(number)


def test_not_a_number_comes_back(tmp_path):
    assert math.isnan(_again(tmp_path, load(tmp_path, "params: {a: .nan}\n")).params["a"])


def test_comments_order_and_quotes_never_count(tmp_path):
    first = load(tmp_path / "1", "seed: 1\nnodes: {a: {count: 2}, b: {}}\ndescription: text\n")
    second = load(
        tmp_path / "2",
        "# note\ndescription: 'text'\nnodes:\n  b: {}\n  a:\n    count: 2\nseed: 1\n",
    )

    assert spec_digest(first) == spec_digest(second)


def test_a_default_written_out_does_not_count(tmp_path):
    first = load(tmp_path / "1", "params: {k: 3}\n")
    second = load(
        tmp_path / "2", "seed: 0\nblas_threads: 1\nparams: {k: {type: int, default: 3}}\n"
    )

    assert spec_digest(first) == spec_digest(second)


def test_numbers_that_json_does_not_have_count(tmp_path):
    body = "epoch: [{{task: t, steps: [{{op: full, value: {}}}]}}]\n"

    digests = {
        spec_digest(load(tmp_path, body.format(v))) for v in (".inf", "-.inf", ".nan", "null")
    }

    assert len(digests) == 4


def test_where_a_value_came_from_does_not_count(tmp_path):
    assert spec_digest(load(tmp_path / "1", "params: {k: 3}\nseed: 5\n")) == spec_digest(
        load(tmp_path / "2", "params: {k: 4}\nseed: 2\n", "params.k=3", "seed=5")
    )


@pytest.mark.parametrize(
    "body",
    ["seed: 1\n", "params: {k: 3}\n", "params: {k: 3.0}\n", "params: {k: '3'}\n",
     "epoch: [{task: t, steps: [a = 1]}]\n", "epoch: [{task: t, steps: [a = 2]}]\n",
     "epoch: [{task: t, steps: [{op: sum, in: [a], axis: 1}]}]\n",
     "epoch: [{task: t, steps: [{op: sum, in: [a], axis: 1.0}]}]\n",
     "stop: [{time: 1m}]\n", "stop: [{time: 1h}]\n"],
)  # fmt: skip
def test_every_change_of_meaning_counts(tmp_path, body):
    digests = load(tmp_path / "1", body), load(tmp_path / "2", "")

    assert spec_digest(digests[0]) != spec_digest(digests[1])
    assert spec_digest(digests[0]).startswith("sha256:")


def test_numbers_of_another_kind_count(tmp_path):
    digests = {
        spec_digest(load(tmp_path / v, f"params: {{k: {v}}}\n")) for v in ("3", "3.0", "'3'")
    }

    assert len(digests) == 3


def test_the_digest_is_that_of_the_values_not_of_the_header(tmp_path):
    first = load(tmp_path, "description: ${env:A}\n", A="x")
    second = load(tmp_path, "description: ${env:A}\n", A="y")

    assert spec_digest(first) != spec_digest(second)
