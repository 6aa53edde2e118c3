from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobrun.tools.prove.kill_plan import AtPoint, AtTime, Course, another_instant, plan_trials

REACHED = {"checkpoint.staged": 5, "checkpoint.renamed": 5, "runner.init-ended": 1}
COURSE = Course(REACHED, 0.5, 2.0)


def test_the_same_seed_gives_the_same_trials_and_another_seed_others():
    assert plan_trials(COURSE, 30, seed=3) == plan_trials(COURSE, 30, seed=3)
    assert plan_trials(COURSE, 30, seed=3) != plan_trials(COURSE, 30, seed=4)


def test_half_of_the_first_kills_are_at_named_places_and_every_place_comes_as_often():
    first = [trial.kills[0] for trial in plan_trials(COURSE, 40)]

    named = Counter(kill.point for kill in first if isinstance(kill, AtPoint))
    assert sum(named.values()) == 20
    assert set(named) == set(REACHED)


def test_every_third_resume_is_killed_and_every_ninth_resume_of_that():
    counts = [len(trial.kills) for trial in plan_trials(COURSE, 18)]

    assert counts == [1, 1, 2, 1, 1, 2, 1, 1, 3] * 2


def test_the_first_copy_dies_after_the_last_save():
    reached = {"runner.acknowledged": 4, "runner.init-ended": 1}

    assert plan_trials(Course(reached, 0.5, 2.0), 1)[0].kills == (
        AtPoint("runner.acknowledged", 4),
    )


def test_without_any_place_all_kills_are_at_instants():
    kills = [kill for trial in plan_trials(Course({}, 0.5, 2.0), 9) for kill in trial.kills]

    assert all(isinstance(kill, AtTime) for kill in kills)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)),
    st.floats(0.01, 100),
    st.integers(0, 40),
    st.integers(0, 999),
)
def test_every_kill_is_one_that_the_unbroken_run_could_meet(reached, seconds, count, seed):
    planned = plan_trials(Course(reached, seconds / 2, seconds), count, seed)

    assert [trial.number for trial in planned] == list(range(count))
    for kill in (kill for trial in planned for kill in trial.kills):
        if isinstance(kill, AtPoint):
            assert 1 <= kill.occurrence <= reached[kill.point]
        else:
            assert 0 <= kill.after_s <= seconds


def test_another_instant_lies_within_the_time_it_is_given():
    assert 0 <= another_instant(COURSE, 7).after_s <= 2.0
    assert another_instant(COURSE, 7) == another_instant(COURSE, 7)


def test_kills_are_named_as_the_crash_points_variable_wants_them():
    assert str(AtPoint("checkpoint.staged", 3)) == "checkpoint.staged:3"
    assert str(AtTime(0.0305)) == "after 30 ms"


def test_most_instants_come_after_the_run_has_begun_to_do_something():
    instants = [
        kill.after_s for trial in plan_trials(Course({}, 0.5, 2.0), 200) for kill in trial.kills
    ]

    assert 0 < sum(instant < 0.5 for instant in instants) < len(instants) / 10
