import hashlib

from jobrun.spec.resolve.substitute import Substitution, references
from jobrun.spec.yaml.parse import read_document
from tests.support.tables import each_case

PARAMS = {"k": 3, "tol": 1e-4, "who": "me", "fast": True}


def _substituted(text, seed=7, **environment):
    substitution = Substitution(PARAMS, environment, seed)
    data = substitution.tree(read_document(f"a: {text}\n", "job.yaml").root)
    return substitution, data["a"]


@each_case(
    ("text", "value"),
    [
        ("${k}", 3), ("'${k}'", 3), ("${tol}", 1e-4), ("${fast}", True), ("${who}", "me"),
        ("${run.seed}", 7), ("k=${k}", "k=3"), ("${k}${k}", "33"), ("${fast}!", "true!"),
        ("${tol} ${who}", "0.0001 me"), ("$k", "$k"), ("cost 5$", "cost 5$"), ("$$", "$$"),
        ("$${k}", "$${k}"), ("$$${k}", "$$3"), ("${run.dir}/x", "${run.dir}/x"),
        ("${run.dir}", "${run.dir}"),
        ("${node}", "${node}"), ("${epoch} ${instance}", "${epoch} ${instance}"),
        ("[${k}, 'x${k}']", None),
    ],
)  # fmt: skip
def test_references(text, value):
    if value is None:
        text, value = "['${k}', 'x${k}']", [3, "x3"]
    substitution, substituted = _substituted(text)

    assert substitution.faults == []
    assert substituted == value
    assert type(substituted) is type(value)


@each_case(
    ("text", "environment", "value"),
    [
        ("${env:A}", {"A": "x"}, "x"), ("${env:A}", {"A": "12"}, 12), ("${env:A}", {"A": ""}, ""),
        ("${env:A,5}", {}, 5), ("${env:A,}", {}, ""), ("${env:A,x,y}", {}, "x,y"),
        ("${env:A,5}", {"A": "6"}, 6), ("v${env:A}", {"A": "12"}, "v12"),
        ("${env:A}", {"A": "9" * 30}, "9" * 30), ("${env:A}", {"A": "${k}"}, "${k}"),
        ("${env:A}", {"A": "no"}, "no"),
    ],
)  # fmt: skip
def test_environment(text, environment, value):
    substitution, substituted = _substituted(f"'{text}'", **environment)

    assert substitution.faults == []
    assert substituted == value
    assert type(substituted) is type(value)


def test_only_digests_of_environment_values_are_kept():
    substitution, _ = _substituted("'${env:TOKEN} ${env:B,x}'", TOKEN="hunter2")

    assert substitution.digests == {
        "TOKEN": hashlib.sha256(b"hunter2").hexdigest(),
        "B": hashlib.sha256(b"x").hexdigest(),
    }


def test_a_whole_environment_value_keeps_its_text_at_hand():
    substitution, _ = _substituted("['${env:A}']", A="012")

    assert substitution.env_texts == {("a", 0): "012"}


def test_bytes_that_are_no_text_are_digested():
    substitution, _ = _substituted("x${env:A}", A="\udcff")

    assert len(substitution.digests["A"]) == 64


@each_case(
    ("text", "code", "words"),
    [
        ("'${kk}'", "E037", "did you mean '${k}'?"),
        ("'x ${HOME}'", "E037", "$${HOME} passes it to the shell"),
        ("'${}'", "E037", "known here"),
        ("'${env:NO}'", "E038", "${env:NO,value}"),
        ("'${k'", "E037", "close it with '}'"),
        ("'x ${'", "E037", "$$ for a dollar"),
        ("'${params.k}'", "E037", "known here"),
        ("'${x:-1}'", "E037", "passes it to the shell"),
    ],
)
def test_an_unknown_reference_is_a_fault(text, code, words):
    substitution, substituted = _substituted(text)

    (fault,) = substitution.faults
    assert (fault.code, fault.path, fault.where.column) == (code, "a", 4)
    assert words in fault.mend
    assert substituted == text.strip("'")


def test_all_faults_are_kept():
    substitution, _ = _substituted("['${x}', '${k}', '${y}']")

    assert [fault.path for fault in substitution.faults] == ["a[0]", "a[2]"]


def test_an_unknown_seed_is_a_fault():
    substitution, _ = _substituted("'${run.seed}'", seed=None)

    assert len(substitution.faults) == 1


def test_the_tree_is_read_not_changed():
    root = read_document("a: ['${k}']\n", "job.yaml").root

    Substitution(PARAMS, {}).tree(root)

    assert root.values["a"].items[0].value == "${k}"


def test_names_that_a_tree_asks_for():
    root = read_document("a: ['${k} $${no} ${env:A,b}', 3, {b: '${run.dir}'}]\n", "job.yaml").root

    assert references(root) == {"k", "env:A,b", "run.dir"}
