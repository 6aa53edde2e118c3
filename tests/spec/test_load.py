import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.core.errors import Origin, SpecError, UsageError
from jobrun.core.text.fault_text import render
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import load_spec
from tests.support.golden import GOLDEN, check_golden
from tests.support.specs import HEADER, KMEANS, faults_of, load, write


def test_the_example_loads(tmp_path):
    loaded = load_spec(write(tmp_path, KMEANS))

    assert loaded.params == {"k": 10, "tol": 1e-4}
    assert loaded.folder == str(tmp_path)
    assert loaded.warnings == ()
    assert loaded.merged["params"]["tol"] == 1e-4
    assert loaded.files == {str(tmp_path / "job.yaml"): KMEANS}


def test_every_value_knows_its_place(tmp_path):
    path = write(tmp_path, KMEANS)

    source = load_spec(path).source

    assert source.at(("epoch", 0, "steps", 1, "in", 0)) == Origin(path, 21, 14, 1, 14)
    assert source.key(("epoch", 0, "steps", 1, "in")) == Origin(path, 21, 9, 2, 9)
    assert source.at(("init", 0, "steps", 0, "load", "X")) == Origin(path, 15, 19, 23, 20)


def test_all_faults_come_together_in_the_order_of_the_file(tmp_path):
    text = (
        "jobrun: 1\nname: a b\nnodes: {n: {}, n: {}}\nseed: x\nstop:\n  - wen: a\n  - epochs: 0\n"
    )

    faults = faults_of(write(tmp_path, text))

    assert [fault.code for fault in faults] == ["E026", "E010", "E022", "E021", "E024"]


def test_two_missing_keys_of_one_mapping_are_two_faults(tmp_path):
    faults = faults_of(write(tmp_path, "seed: 1\n"))

    assert [fault.path for fault in faults] == ["jobrun", "name"]


def test_an_override_wins_and_knows_its_place(tmp_path):
    loaded = load(tmp_path, "stop: [{epochs: 100}]\n", "seed=3", "stop[0].epochs=5")

    assert loaded.spec.stop[0].epochs == 5
    assert str(loaded.source.at(("stop", 0, "epochs"))) == "--set #2"
    assert loaded.files["--set #2"] == "stop[0].epochs=5"


def test_a_wrong_value_of_an_override_is_a_fault_of_the_spec(tmp_path):
    (fault,) = faults_of(write(tmp_path, HEADER), "seed=x")

    assert (fault.code, str(fault.where), fault.path) == ("E022", "--set #1", "seed")


def test_a_malformed_override_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError) as caught:
        load_spec(write(tmp_path, HEADER), overrides=["seed"])

    assert caught.value.faults[0].code == "E040"


def test_faults_of_overrides_come_behind_those_of_files(tmp_path):
    faults = faults_of(write(tmp_path, HEADER + "nodes: 3\n"), "params.k=3", "seed=x")

    assert [str(fault.where)[-8:] for fault in faults] == ["yaml:3:8", "--set #1", "--set #2"]


def test_values_files_are_merged_later_ones_winning(tmp_path):
    main = write(
        tmp_path, HEADER + "seed: 1\nparams: {k: {default: 1, min: 1}}\nstop: [{epochs: 1}]\n"
    )
    first = write(tmp_path, "seed: 2\nparams: {k: 2}\n", "first.yaml")
    second = write(tmp_path, "params: {k: 3}\nstop: [{epochs: 9}]\n", "second.yaml")

    loaded = load_spec(main, values=[first, second])

    assert (loaded.spec.seed, loaded.params) == (2, {"k": 3})
    assert [item.epochs for item in loaded.spec.stop] == [9]
    assert loaded.source.at(("seed",)).file == first


def test_a_bad_values_file_is_reported_with_the_faults_of_the_main_file(tmp_path):
    main = write(tmp_path, HEADER + "nodes: 3\n")
    values = write(tmp_path, "a: [\n", "values.yaml")

    faults = faults_of(main, values=(values,))

    assert {fault.where.file for fault in faults} == {main, values}


def test_references_are_replaced_and_whole_ones_keep_their_type(tmp_path):
    loaded = load(
        tmp_path,
        'params: {n: 5, who: me}\nseed: 4\nstop: [{epochs: "${n}"}]\n'
        "description: ${who} ${n} ${run.seed} ${run.dir} ${epoch} $${n}\n",
    )

    assert loaded.spec.stop[0].epochs == 5
    assert loaded.spec.description == "me 5 4 ${run.dir} ${epoch} $${n}"


def test_the_merged_tree_keeps_references_and_no_environment(tmp_path):
    loaded = load(tmp_path, "description: ${env:SECRET}\n", SECRET="hunter2")

    assert loaded.spec.description == "hunter2"
    assert loaded.merged["description"] == "${env:SECRET}"
    assert loaded.environment_digests.keys() == {"SECRET"}
    assert "hunter2" not in repr(loaded.merged) + repr(loaded.environment_digests)


def test_an_environment_value_is_a_number_or_text_as_wanted(tmp_path):
    body = 'seed: ${env:N}\ndescription: ${env:N}\nepoch: [{task: t, node: "${env:N}"}]\n'

    spec = load(tmp_path, body, N="12").spec

    assert (spec.seed, spec.description, spec.epoch[0].node) == (12, "12", "12")


def test_a_seed_may_come_from_a_param(tmp_path):
    loaded = load(tmp_path, "params: {s: 9}\nseed: ${s}\ndescription: seed ${run.seed}\n")

    assert (loaded.spec.seed, loaded.spec.description) == (9, "seed 9")


def test_private_keys_are_not_part_of_the_spec(tmp_path):
    loaded = load(tmp_path, "x-common: &c {node: a}\nnodes: {a: {}}\nepoch: [{task: t, <<: *c}]\n")

    assert loaded.spec.epoch[0].node == "a"
    assert loaded.merged["epoch"] == [{"task": "t", "node": "a"}]
    assert "x-common" not in loaded.merged


def test_paths_start_from_the_folder_given(tmp_path):
    path = write(tmp_path, HEADER)

    assert load_spec(path, folder="/somewhere").folder == "/somewhere"


def test_a_path_in_an_override_starts_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    body = "readers: {r: {npz: a.npz}}\n"

    loaded = load(tmp_path / "specs", body, "readers.r.npz=b.npz")

    assert loaded.spec.readers["r"].npz == "../here/b.npz"


@pytest.mark.parametrize("overrides", [[], ["seed=1"]])
def test_a_deleted_working_directory_is_reported(tmp_path, monkeypatch, overrides):
    spec = write(tmp_path, HEADER)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(SpecError) as caught:
        load_spec(spec if overrides else "job.yaml", overrides=overrides)
    assert caught.value.faults[0].message == "the working directory no longer exists"
    assert load_spec(spec).folder == str(tmp_path)


def test_expression_columns_are_unknown_behind_a_reference(tmp_path):
    source = load(tmp_path, 'params: {n: 5}\nexpect: ["a < ${n}"]\n').source

    assert source.at(("expect", 0)).text_column == 0


@pytest.mark.long
def test_ten_thousand_tasks_load(tmp_path):
    tasks = "".join(f"  - task: t{i}\n    steps: [x = {i}]\n" for i in range(10_000))

    loaded = load(tmp_path, "epoch:\n" + tasks)

    assert len(loaded.spec.epoch) == 10_000
    assert loaded.source.at(("epoch", 9_999, "task")).line == 3 + 2 * 9_999 + 1


def test_loading_needs_no_numerics_and_no_terminal(tmp_path):
    path = write(tmp_path, KMEANS)
    program = (
        "import sys\n"
        "from jobrun.spec.load import load_spec\n"
        "from jobrun.core.text.fault_text import render\n"
        f"load_spec({path!r})\n"
        "print([name for name in ('numpy', 'h5py', 'rich', 'click') if name in sys.modules])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.long
@given(
    st.integers(0, len(KMEANS)),
    st.integers(0, 12),
    st.sampled_from(
        ["", " ", "\n", "\t", "[", "]", "{", "}", ": ", "- ", '"', "'", "#", "&a ", "*a", "${",
         "${k}", "$$", "!!x ", "|", "\n\n- ", "null", "1e999", "\x00", "é", "a" * 200]
    ),
)  # fmt: skip
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_spec_is_read_or_refused(tmp_path, start, length, put):
    text = KMEANS[:start] + put + KMEANS[start + length :]
    faults = ()

    try:
        loaded = load_spec(write(tmp_path, text), environment={})
    except SpecError as error:
        faults = error.faults
    else:
        assert spec_digest(loaded)

    files = {str(tmp_path / "job.yaml"): text}
    for fault in faults:
        assert fault.mend
        assert fault.where is not None
        assert len(render(fault, files).split("\n")) == 3


BAD_SPECS = sorted((GOLDEN / "spec").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD_SPECS, ids=lambda path: path.stem)
def test_each_bad_spec_has_its_recorded_report(path, monkeypatch):
    monkeypatch.chdir(path.parent)

    with pytest.raises(SpecError) as caught:
        load_spec(path.name, environment={})

    files = {path.name: path.read_text(encoding="utf-8", errors="replace")}
    text = "".join(render(fault, files) + "\n" for fault in caught.value.faults)
    check_golden(path.with_suffix(".txt"), text)
