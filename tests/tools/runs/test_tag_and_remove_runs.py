from __future__ import annotations

import pytest

from jobrun.core.errors import LockedError, UsageError
from jobrun.runner.rundir.lock import RunLock
from jobrun.tools.runs.tag_and_remove_runs import (
    TAGS_NAME,
    change_tags,
    measure_size,
    read_tags,
    remove_run,
)
from tests.support.sample_runs import make_run


def test_tags_are_put_on_and_taken_off_sorted_and_once(tmp_path):
    assert read_tags(tmp_path) == ()
    assert change_tags(tmp_path, ("lr=0.1", "best", "best"), ()) == ("best", "lr=0.1")
    assert change_tags(tmp_path, (), ("best", "unknown")) == ("lr=0.1",)
    assert read_tags(tmp_path) == ("lr=0.1",)


@pytest.mark.parametrize("tag", ["", "two words", "-x", "a\n", "ü" * 3, "x" * 65])
def test_a_tag_is_one_word(tmp_path, tag):
    with pytest.raises(UsageError, match="E422"):
        change_tags(tmp_path, (tag,), ())

    assert not (tmp_path / TAGS_NAME).exists()


@pytest.mark.parametrize("text", ["", "{}", '["a b", 3, "good"]', "[[["])
def test_a_damaged_file_hides_no_run(tmp_path, text):
    (tmp_path / TAGS_NAME).write_text(text)

    assert set(read_tags(tmp_path)) <= {"good"}


def test_a_finished_run_disappears_whole(tmp_path):
    run = make_run(tmp_path)
    assert measure_size(run.path) > 5 * 4096

    remove_run(run)

    assert [path.name for path in run.path.parent.iterdir() if not path.is_symlink()] == []


def test_a_resumable_run_is_kept_unless_it_is_named(tmp_path):
    run = make_run(tmp_path, limit=1.5)

    with pytest.raises(UsageError, match="E423"):
        remove_run(run)
    assert run.path.exists()
    remove_run(run, unfinished=True)
    assert not run.path.exists()


def test_a_run_that_lives_is_kept(tmp_path):
    run = make_run(tmp_path)

    with RunLock.acquire(run.path), pytest.raises(LockedError):
        remove_run(run, unfinished=True)

    assert run.path.exists()
