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
    (table,) = (candidate for candidate in all_tables if candidate.path == path)
    (key,) = (candidate for candidate in table.keys if candidate.name == name)
    return key


def test_every_model_of_the_language_has_its_table_once(all_tables):
    models = {name for name, body in schema()["$defs"].items() if "properties" in body}

    assert sorted(table.name for table in all_tables) == ["", *sorted(models)]
    assert len({table.path for table in all_tables}) == len(all_tables)


def test_every_key_and_every_table_says_what_it_is(all_tables):
    assert [table.path for table in all_tables if not table.about] == []
    assert [
        f"{table.path}.{key.name}" for table in all_tables for key in table.keys if not key.about
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
def test_a_kind_is_described(all_tables, path, name, kind):
    assert _key(all_tables, path, name).kind == kind


def test_required_keys_and_defaults_are_shown(all_tables):
    assert _key(all_tables, "steps.loop", "loop").required
    assert _key(all_tables, "task", "hogwild").default == "false"
    assert _key(all_tables, "queues", "capacity").default == "100"
    assert _key(all_tables, "task", "node").default == ""


def test_a_table_is_found_by_its_path_with_all_its_keys(all_tables):
    (table,) = find_tables(all_tables, "checkpoint.keep")

    assert [key.name for key in table.keys] == ["last", "every", "best"]


def test_a_key_is_found_in_every_table_that_has_it(all_tables):
    assert {table.path for table in find_tables(all_tables, "every")} >= {
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
    pages = [render_key_page(table.path) for table in list_key_tables() if table.path]

    assert max(len(line) for page in pages for line in page.splitlines()) <= 80


def test_a_required_key_and_a_default_are_shown():
    page = render_key_page("task")

    assert "  task       name, required: unique in the job\n" in page
    assert "  hogwild    true or false, else false: allow data races on shared blobs\n" in page


def test_what_is_no_key_has_no_page():
    assert render_key_page("nonsense") is None
    assert all(map(render_key_page, list_key_words(list_key_tables())))
