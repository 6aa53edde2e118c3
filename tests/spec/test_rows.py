"""The catalogue of bad input to specs, row by row."""

import itertools
import os

import pytest

from jobrun.spec.load import load_spec
from tests.support.specs import HEADER, fault, faults_of, line_and_column, load, write


def test_row_01_duplicate_key(tmp_path):
    error = fault(tmp_path, HEADER + "stop: [{epochs: 1}]\nstop: [{epochs: 2}]\n")

    assert (error.code, line_and_column(error)) == ("E010", (4, 1))
    assert error.message == "duplicate key 'stop' (first at line 3)"


def test_row_01_duplicate_key_deep_inside(tmp_path):
    error = fault(tmp_path, HEADER + "epoch:\n  - task: a\n    steps: []\n    task: b\n")

    assert (error.code, line_and_column(error), error.path) == ("E010", (6, 5), "epoch[0].task")


def test_row_02_tab_indentation(tmp_path):
    error = fault(tmp_path, HEADER + "nodes:\n\ta: {}\n")

    assert (error.code, line_and_column(error), error.mend) == ("E006", (4, 1), "use spaces")


@pytest.mark.parametrize(("word", "meaning"), [("no", "false"), ("on", "true"), ("y", "true")])
def test_row_03_old_bool_where_a_bool_is_wanted(tmp_path, word, meaning):
    error = fault(tmp_path, HEADER + f"epoch: [{{task: t, hogwild: {word}}}]\n")

    assert (error.code, line_and_column(error)) == ("E023", (3, 28))
    assert f"'{word}' is {meaning} in YAML 1.1 and text in YAML 1.2" in error.message
    assert error.mend == f"write {meaning}"


@pytest.mark.parametrize("word", ["no", "on", "y"])
def test_row_03_old_bool_where_text_is_wanted_is_text(tmp_path, word):
    loaded = load(tmp_path, f"description: {word}\nparams: {{country: {word}}}\n")

    assert loaded.spec.description == word
    assert loaded.params == {"country": word}


def test_row_03_quoted_text_has_one_reading(tmp_path):
    error = fault(tmp_path, HEADER + 'epoch: [{task: t, hogwild: "no"}]\n')

    assert error.code == "E022"


@pytest.mark.parametrize(
    ("number", "mend"), [("010", "write 8 or 10"), ("1:30", "write 90"), ("1_000", "write 1000")]
)
def test_row_04_old_number_where_a_number_is_wanted(tmp_path, number, mend):
    error = fault(tmp_path, HEADER + f"blas_threads: {number}\n")

    assert (error.code, line_and_column(error), error.mend) == ("E023", (3, 15), mend)
    assert "YAML 1.1" in error.message
    assert "YAML 1.2" in error.message


@pytest.mark.parametrize("text", ["1:30", "12:30:00", "010", "1_000"])
def test_row_04_old_number_where_a_duration_is_wanted(tmp_path, text):
    error = fault(tmp_path, HEADER + f"stop: [{{time: {text}}}]\n")

    assert (error.code, line_and_column(error)) == ("E023", (3, 15))


def test_row_05_exponent_without_a_point_is_a_float(tmp_path):
    loaded = load(tmp_path, "params: {lr: 1e-3, big: 1e3}\n")

    assert loaded.params == {"lr": 0.001, "big": 1000.0}
    assert type(loaded.params["big"]) is float


def test_row_06_date_is_text(tmp_path):
    assert load(tmp_path, "deadline: 2026-11-21\n").spec.deadline == "2026-11-21"
    assert fault(tmp_path, HEADER + "seed: 2026-11-21\n").code == "E022"


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_row_07_not_finite_where_an_integer_is_wanted(tmp_path, number):
    assert fault(tmp_path, HEADER + f"seed: {number}\n").code == "E022"


@pytest.mark.parametrize("number", [".nan", ".inf"])
def test_row_07_not_finite_as_a_bound(tmp_path, number):
    error = fault(tmp_path, HEADER + f"params: {{k: {{default: 1, max: {number}}}}}\n")

    assert (error.code, line_and_column(error)) == ("E022", (3, 31))


def test_row_07_infinity_where_a_float_is_wanted(tmp_path):
    assert load(tmp_path, "params: {tol: .inf}\n").params == {"tol": float("inf")}


def test_row_07_number_too_large_for_a_float(tmp_path):
    error = fault(tmp_path, HEADER + "params: {tol: 1e999}\n")

    assert (error.code, line_and_column(error)) == ("E016", (3, 15))


def test_row_08_integer_of_five_thousand_digits(tmp_path):
    error = fault(tmp_path, HEADER + f"seed: {'9' * 5000}\n")

    assert (error.code, line_and_column(error)) == ("E016", (3, 7))
    assert "64 bits" in error.message


def _bomb(first, line):
    names = [f"a{i}" for i in range(12)]
    lines = [f"x-{names[0]}: &{names[0]} {first}"]
    lines += [
        f"x-{name}: &{name} " + line.format(", ".join([f"*{before}"] * 10))
        for before, name in itertools.pairwise(names)
    ]
    return HEADER + "\n".join(lines) + "\n"


def test_row_09_billion_laughs(tmp_path):
    assert fault(tmp_path, _bomb("[x, x, x]", "[{}]")).code == "E014"


def test_row_10_merge_key_bomb(tmp_path):
    assert fault(tmp_path, _bomb("{a: 1, b: 2}", "{{<<: [{}]}}")).code == "E014"


@pytest.mark.parametrize("value", ["[*a]", "{b: *a}", "{<<: *a}", "[[[*a]]]"])
def test_row_11_alias_of_what_is_around_it(tmp_path, value):
    error = fault(tmp_path, HEADER + f"x-a: &a {value}\n")

    assert error.code == "E013"
    assert "contain itself" in error.message


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 200_000, "{a: " * 100_000, "- " * 50_000])
def test_row_12_deep_nesting_on_one_line(tmp_path, text):
    error = fault(tmp_path, HEADER + f"x-a:\n {text}")

    assert (error.code, error.where.line) == ("E015", 4)


def test_row_12_deep_nesting_in_blocks(tmp_path):
    blocks = "".join(" " * depth + "a:\n" for depth in range(1, 1000))

    error = fault(tmp_path, HEADER + "x-a:\n" + blocks)

    assert error.code == "E015"


def test_row_12_deep_nesting_by_aliases(tmp_path):
    deep = "[" * 40 + "]" * 40

    error = fault(tmp_path, HEADER + f"x-a: &a {deep}\nx-b: {'[' * 40}*a{']' * 40}\n")

    assert (error.code, error.where.line) == ("E015", 4)


def test_row_12_sixty_four_levels_are_read(tmp_path):
    assert load(tmp_path, f"x-a: {'[' * 63}{']' * 63}\n").spec.name == "example"


def test_row_13_a_line_of_ten_megabytes(tmp_path):
    assert len(load(tmp_path, f"description: {'a' * 10_000_000}\n").spec.description) == 10_000_000


def test_row_13_a_file_of_two_gigabytes(tmp_path):
    path = write(tmp_path, HEADER)
    os.truncate(path, 2 * 1024**3)

    (error,) = faults_of(path)

    assert error.code == "E002"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_row_13_a_device(path):
    (error,) = faults_of(path)

    assert error.code == "E001"
    assert "device" in error.message


def test_row_13_a_named_pipe_does_not_hang(tmp_path):
    path = tmp_path / "job.yaml"
    os.mkfifo(path)

    (error,) = faults_of(str(path))

    assert "named pipe" in error.message


def test_row_13_a_directory(tmp_path):
    (error,) = faults_of(str(tmp_path))

    assert "directory" in error.message


def test_row_13_a_file_that_is_not_there(tmp_path):
    (error,) = faults_of(str(tmp_path / "no.yaml"))

    assert error.code == "E001"
    assert "No such file" in error.message


def test_row_14_bytes_that_are_not_utf_8(tmp_path):
    error = fault(tmp_path, HEADER.encode() + b"description: caf\xe9\n")

    assert (error.code, line_and_column(error)) == ("E003", (3, 17))
    assert "0xe9" in error.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_row_14_utf_16(tmp_path, encoding):
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""

    error = fault(tmp_path, mark + HEADER.encode(encoding))

    assert (error.code, line_and_column(error)) == ("E003", (1, 1))
    assert "UTF-" in error.message


def test_row_14_a_utf_8_byte_order_mark_is_accepted(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbf" + HEADER.encode())

    assert load_spec(path).source.key(("jobrun",)).column == 1


@pytest.mark.parametrize(
    "char", ["\x00", "\x1b", "\x7f", "\x85", "\x9b", "\u202e", "\u2066", "\u2028", "\ufeff", "\r"]
)
def test_row_14_characters_that_cannot_be_seen(tmp_path, char):
    error = fault(tmp_path, HEADER + f"description: a{char}b\n")

    assert (error.code, line_and_column(error)) == ("E004", (3, 15))
    assert f"{ord(char):02x}".upper() in error.message.upper()


@pytest.mark.parametrize(
    "value",
    ['!!python/object/apply:os.system ["touch pwned"]', "!!str 1", "! x", "!local [1]",
     "!!binary aGVsbG8=", "!<tag:example,2000:x> {a: 1}"],
)  # fmt: skip
def test_row_15_tags(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)

    error = fault(tmp_path, HEADER + f"x-a: {value}\n")

    assert (error.code, line_and_column(error)) == ("E012", (3, 6))
    assert not (tmp_path / "pwned").exists()


def test_row_16_several_documents(tmp_path):
    error = fault(tmp_path, HEADER + "---\nname: b\n")

    assert (error.code, line_and_column(error)) == ("E008", (3, 1))


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "~\n", "text\n", "- a\n", "[]\n"]
)
def test_row_16_no_mapping(tmp_path, text):
    assert fault(tmp_path, text).code == "E009"


def test_row_17_unknown_key(tmp_path):
    error = fault(tmp_path, HEADER + "stop:\n  - wen: shift < tol\n")

    assert (error.code, line_and_column(error), error.where.length) == ("E021", (4, 5), 3)
    assert (error.path, error.message) == ("stop[0].wen", "unknown key")
    assert error.mend == (
        "did you mean 'when'?  "
        "allowed here: data_finished, endless, epochs, no_improvement, time, when"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"3"', "expected an integer, found the text '3'"),
        ("true", "expected an integer, found true"),
        ("3.0", "expected an integer, found the number 3.0"),
        ("-1", "expected 1 or more, found -1"),
        ("0", "expected 1 or more, found 0"),
        ("[3]", "expected an integer, found a list"),
        ("{}", "expected an integer, found a mapping"),
        ("", "the key has no value"),
    ],
)
def test_row_18_wrong_type(tmp_path, value, message):
    error = fault(tmp_path, HEADER + f"stop:\n  - epochs: {value}\n")

    assert error.message == message
    assert error.where.line == 4
    assert error.path == "stop[0].epochs"


@pytest.mark.parametrize(
    ("key", "column"),
    [("1: a", 8), ("true: a", 8), ("~: a", 8), ("[a]: b", 8), ("{a: b}: c", 8),
     ("*x : a", 8), ("1.5: a", 8)],
)  # fmt: skip
def test_row_19_keys_that_are_not_text(tmp_path, key, column):
    error = fault(tmp_path, HEADER + f"x-x: &x 1\nx-a: {{ {key} }}\n")

    assert (error.code, line_and_column(error)) == ("E011", (4, column))


def test_row_19_a_missing_key(tmp_path):
    error = fault(tmp_path, HEADER + "x-a:\n  : a\n")

    assert (error.code, line_and_column(error)) == ("E005", (4, 3))
    assert "key was expected" in error.message


@pytest.mark.parametrize("key", ['"1"', "yes", "010", '"~"', "'true'"])
def test_row_19_keys_that_are_text(tmp_path, key):
    assert load(tmp_path, f"nodes: {{a: {{props: {{{key}: 1}}}}}}\n").spec.nodes["a"].props


def test_row_21_node_names_that_differ_in_case(tmp_path):
    error = fault(tmp_path, HEADER + "nodes:\n  worker: {}\n  Worker: {}\n")

    assert (error.code, line_and_column(error), error.path) == ("E032", (5, 3), "nodes.Worker")


def test_row_21_counted_nodes_take_the_names_of_their_members(tmp_path):
    error = fault(tmp_path, HEADER + "nodes:\n  w: {count: 3}\n  w_1: {}\n")

    assert (error.code, line_and_column(error)) == ("E032", (5, 3))


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/b", ".", "..", ".tmp-x", "a\\x00b", "a\\nb", "\\e[31m", "a" * 300, "",
     "-x", "naïve", "e\\u0301"],
)  # fmt: skip
def test_row_22_node_names_that_are_no_file_names(tmp_path, name):
    error = fault(tmp_path, HEADER + f'nodes: {{"{name}": {{}}}}\n')

    assert (error.code, line_and_column(error)) == ("E026", (3, 9))
    assert error.message.isprintable()


@pytest.mark.parametrize("name", ["a b", "../x", "", "-v"])
def test_row_22_job_names_that_are_no_file_names(tmp_path, name):
    assert fault(tmp_path, f'jobrun: 1\nname: "{name}"\n').code == "E026"


def test_row_23_a_billion_nodes(tmp_path):
    error = fault(tmp_path, HEADER + "nodes: {a: {count: 1000000000}}\n")

    assert (error.code, line_and_column(error)) == ("E024", (3, 20))


def test_row_23_too_many_nodes_in_sum(tmp_path):
    error = fault(tmp_path, HEADER + "nodes: {a: {count: 60000}, b: {count: 60000}}\n")

    assert error.code == "E033"
    assert "120,000" in error.message


def test_row_24_an_anchor_that_nothing_uses(tmp_path):
    assert load(tmp_path, "x-note: &a [1]\nnodes: &b {a: &c {}}\n").spec.nodes.keys() == {"a"}
