import pickle

from jobrun.core.errors import Origin


def test_a_place_reads_as_file_line_column():
    assert str(Origin("job.yaml", 31, 5)) == "job.yaml:31:5"


def test_an_option_reads_as_its_name():
    assert str(Origin("--set #2")) == "--set #2"


def test_inside_counts_from_the_first_character_of_the_text():
    scalar = Origin("job.yaml", 3, 7, length=9, text_column=8)

    assert scalar.inside(4, 2) == Origin("job.yaml", 3, 12, 2, 12)


def test_inside_is_the_whole_scalar_where_columns_do_not_map():
    folded = Origin("job.yaml", 3, 7, length=9)

    assert folded.inside(4) is folded


def test_inside_an_option_is_the_option():
    option = Origin("--set #1")

    assert option.inside(4) is option


def test_inside_underlines_at_least_one_character():
    assert Origin("job.yaml", 1, 1, text_column=1).inside(0, 0).length == 1


def test_survives_pickling():
    origin = Origin("job.yaml", 1, 2, 3, 4)

    assert pickle.loads(pickle.dumps(origin)) == origin
