from __future__ import annotations

import pytest

from jobrun.core.errors import SpecError, UsageError
from jobrun.core.text.names import FILE_NAME
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import load_spec
from jobrun.tools.runs.tag_and_remove_runs import change_tags, read_tags
from jobrun.tools.sweep.axes import enumerate_points, parse_axes
from jobrun.tools.sweep.sweep_design import (
    SweepBase,
    SweepRequest,
    build_tags,
    design_sweep,
    read_request,
    sweep_folder,
    tag_run,
    write_request,
)
from tests.support.sweeps import grow_spec, planned


def design(folder, *texts, name="", overrides=(), extra=""):
    axes = parse_axes(texts)
    base = SweepBase(str(grow_spec(folder, extra)), (), overrides, name)
    return design_sweep(base, axes, enumerate_points(axes, None, 0))


def refused(folder, *texts, **options):
    with pytest.raises(SpecError) as caught:
        design(folder, *texts, **options)
    return [(fault.code, str(fault.where), fault.mend) for fault in caught.value.faults]


def test_an_unknown_param_is_refused_with_its_place_and_the_nearest_name(tmp_path):
    assert refused(tmp_path, "k=1", "raet=2,3") == [("E042", "--grid #2", "did you mean 'rate'?")]


def test_each_value_that_does_not_fit_is_refused(tmp_path):
    faults = refused(tmp_path, "k=1,x", "kind=a,c")

    assert [(code, position) for code, position, _ in faults] == [
        ("E036", "--grid #1"),
        ("E036", "--grid #2"),
    ]


def test_a_fault_of_set_keeps_its_own_place(tmp_path):
    assert refused(tmp_path, "k=1", overrides=("params.rate=no",))[0][1] == "--set #1"


def test_values_have_the_types_of_the_spec(tmp_path):
    (point,) = design(tmp_path, "rate=1", "kind=b").points

    assert dict(point.values) == {"rate": 1.0, "kind": "b"}
    assert type(point.values["rate"]) is float
    assert point.label == "rate=1 kind=b"


def test_a_number_written_in_two_ways_is_one_point(tmp_path):
    assert len(design(tmp_path, "rate=1,1.0,2").points) == 2


def test_names_of_jobs_are_file_names_and_differ(tmp_path):
    names = [point.job for point in design(tmp_path, "k=1,2", "rate=1e-30,1e30").points]

    assert len(set(names)) == 4
    assert all(FILE_NAME.fullmatch(name) for name in names)


def test_a_point_keeps_its_name_when_axes_change_places(tmp_path):
    first = design(tmp_path, "k=1", "rate=2")
    other = design(tmp_path, "rate=2,3", "k=1")

    # What is shown in front follows the axes; what makes it that point does not.
    assert first.points[0].job[-10:] == other.points[0].job[-10:]


def test_another_name_is_another_sweep(tmp_path):
    assert design(tmp_path, "k=1", name="second").points[0].job.startswith("second.k1.")
    with pytest.raises(UsageError, match="E403"):
        design(tmp_path, "k=1", name="a/b")


def test_the_metric_that_the_spec_judges_by_is_the_default(tmp_path):
    assert design(tmp_path, "k=1").best == ("x", "min")
    best = "checkpoint: {keep: {best: {metric: x, mode: max, n: 1}}}\n"
    assert design(tmp_path, "k=1", extra=best).best == ("x", "max")


def test_a_param_without_a_value_gets_it_from_the_grid(tmp_path):
    path = grow_spec(tmp_path)
    path.write_text(path.read_text().replace("k: 1\n", "k: {type: int}\n", 1))
    axes = parse_axes(["k=1,2"])

    assert (
        len(design_sweep(SweepBase(str(path)), axes, enumerate_points(axes, None, 0)).points) == 2
    )


@pytest.mark.long
def test_of_very_many_points_each_is_still_checked_for_its_form(tmp_path):
    values = ",".join(str(number) for number in range(150))

    assert len(design(tmp_path, f"k={values}").points) == 150
    assert refused(tmp_path, f"k={values},x")[0][:2] == ("E036", "--grid #1")


def test_a_point_has_the_digest_that_its_run_records(tmp_path):
    (point,) = design(tmp_path, "rate=2").points

    assert spec_digest(load_spec(str(tmp_path / "grow.yaml"), overrides=point.words[1::2])) == (
        point.digest
    )


def test_what_was_asked_for_is_read_back(tmp_path):
    folder = sweep_folder(tmp_path, "grow")
    asked = SweepRequest(("k=1,2", "rate=0.1..1.0"), 5, 7)

    write_request(folder, asked)

    assert read_request(folder) == asked


@pytest.mark.parametrize("content", [None, "", "[]", '{"grid": 1}', '{"grid": []}'])
def test_a_sweep_that_is_not_there_or_damaged_has_to_be_asked_for_again(tmp_path, content):
    folder = sweep_folder(tmp_path, "grow")
    if content is not None:
        folder.mkdir(parents=True)
        (folder / "sweep.json").write_text(content)

    with pytest.raises(UsageError, match=r"E438.*--grid"):
        read_request(folder)


def test_tags_name_the_sweep_and_each_value():
    assert build_tags("grow", planned(k=3, rate=0.5)) == ("sweep=grow", "k=3", "rate=0.5")


def test_characters_that_a_tag_cannot_hold_are_replaced(tmp_path):
    tag_run(tmp_path, "grow", planned(path="a b/ü", rate=1e30, long="x" * 99))

    assert read_tags(tmp_path) == ("long=" + "x" * 59, "path=a_b_", "rate=1e_30", "sweep=grow")


def test_tags_of_a_person_stay(tmp_path):
    change_tags(tmp_path, ("mine",), ())

    tag_run(tmp_path, "grow", planned(k=1))

    assert read_tags(tmp_path) == ("k=1", "mine", "sweep=grow")


def test_a_run_that_is_gone_is_passed_over(tmp_path):
    tag_run(tmp_path / "gone", "grow", planned(k=1))

    assert not (tmp_path / "gone").exists()
