"""The keys of the language, as they are read off its schema."""

from __future__ import annotations

import pytest

from jobrun.spec.models.json_schema import schema
from jobrun.tools.spec_key_tables import (
    Key,
    find_tables,
    list_key_tables,
    list_key_words,
    read_tables,
    render_key_page,
)


@pytest.fixture(scope="module")
def all_tables():
    return read_tables(schema())


def _key(all_tables, path, name):
    (table,) = (one for one in all_tables if one.path == path)
    (key,) = (one for one in table.keys if one.name == name)
    return key


def test_every_model_of_the_language_has_its_table_once(all_tables):
    models = {name for name, body in schema()["$defs"].items() if "properties" in body}

    assert sorted(one.name for one in all_tables) == ["", *sorted(models)]
    assert len({one.path for one in all_tables}) == len(all_tables)


def test_every_key_and_every_table_says_what_it_is(all_tables):
    assert [one.path for one in all_tables if not one.about] == []
    assert [
        f"{one.path}.{key.name}" for one in all_tables for key in one.keys if not key.about
    ] == []


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("", "seed", "whole number"),
        ("", "epoch", "list of mappings or mapping"),
        ("checkpoint", "every", "epochs or duration"),
        ("task", "needs", "list of names"),
        ("task", "on_error", "fail or warn"),
        ("steps.run", "run", "text or list of texts"),
        ("params", "drift", "safe"),
    ],
)
def test_a_kind_is_told_in_words(all_tables, path, name, kind):
    assert _key(all_tables, path, name).kind == kind


def test_what_is_required_and_what_counts_without_it_is_told(all_tables):
    assert _key(all_tables, "steps.loop", "loop").required
    assert _key(all_tables, "task", "hogwild").default == "false"
    assert _key(all_tables, "queues", "capacity").default == "100"
    assert _key(all_tables, "task", "node").default == ""


def test_a_table_is_found_by_its_path_with_all_its_keys(all_tables):
    (found,) = find_tables(all_tables, "checkpoint.keep")

    assert [key.name for key in found.keys] == ["last", "every", "best"]


def test_a_key_is_found_wherever_it_stands(all_tables):
    assert {one.path for one in find_tables(all_tables, "every")} >= {
        "checkpoint",
        "checkpoint.keep",
    }
    (alone,) = find_tables(all_tables, "keep.last")
    assert isinstance(alone.keys[0], Key)
    assert (alone.path, alone.keys[0].name) == ("checkpoint.keep", "last")


def test_what_is_no_key_is_not_found(all_tables):
    assert (
        find_tables(all_tables, "nonsense")
        == find_tables(all_tables, "")
        == find_tables(all_tables, "keep.x")
        == ()
    )


def test_all_that_can_be_looked_up_is_found(all_tables):
    assert [word for word in list_key_words(all_tables) if not find_tables(all_tables, word)] == []


def test_a_table_fits_a_terminal():
    pages = [render_key_page(one.path) for one in list_key_tables() if one.path]

    assert max(len(line) for page in pages for line in page.splitlines()) <= 80


def test_a_required_key_and_a_default_are_told():
    page = render_key_page("task")

    assert "  task       name, required: unique in the job\n" in page
    assert "  hogwild    true or false, else false: allow data races on shared blobs\n" in page


def test_what_is_no_key_has_no_page():
    assert render_key_page("nonsense") is None
    assert all(map(render_key_page, list_key_words(list_key_tables())))
