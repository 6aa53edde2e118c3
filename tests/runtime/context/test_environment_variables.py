"""Environment variables that callables change can be taken to another process, but no secrets."""

from __future__ import annotations

import json
import os

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.context.environment_variables import EnvironmentVariables
from jobrun.runtime.context.library_settings import LibrarySettings


@pytest.fixture(autouse=True)
def _own_environment():
    before = dict(os.environ)
    os.environ["OLD"] = "old"
    os.environ.pop("NEW", None)
    yield
    os.environ.clear()
    os.environ.update(before)


def _captured(change, variables=None):
    variables = variables or EnvironmentVariables()
    with variables.watch():
        change()
    return json.loads(json.dumps(variables.capture()))


def _set(**variables):
    return lambda: os.environ.update(variables)


def test_set_changed_and_removed_variables_are_captured():
    def change():
        os.environ["NEW"] = "1"
        os.environ["PATH"] += ":/x"
        del os.environ["OLD"]

    assert _captured(change) == {"NEW": "1", "OLD": None, "PATH": os.environ["PATH"]}


def test_captured_variables_are_restored_in_another_process():
    taken = _captured(lambda: (os.environ.pop("OLD"), os.environ.update(NEW="1")))
    os.environ.update(OLD="old")
    del os.environ["NEW"]

    other = EnvironmentVariables()
    other.restore(taken)

    assert "OLD" not in os.environ
    assert os.environ["NEW"] == "1"
    assert other.capture() == taken


def test_changes_while_no_group_runs_are_not_captured():
    variables = EnvironmentVariables()
    os.environ["NEW"] = "of a listener"

    assert _captured(_set(OLD="2"), variables) == {"OLD": "2"}
    os.environ["NEW"] = "again"
    assert variables.capture() == {"OLD": "2"}


def test_variables_set_by_an_import_are_not_captured():
    settings = LibrarySettings()
    with settings.watch():
        settings.load(_set(NEW="1"))

    assert settings.capture() == {}


def test_a_variable_of_a_callable_that_an_import_overwrites_is_captured():
    settings = LibrarySettings()
    with settings.watch():
        settings.call(_set(NEW="1"))
        settings.load(_set(NEW="2"))

    assert settings.capture() == {"os.environ": {"NEW": "2"}}


def test_a_second_attempt_finds_what_the_first_one_found():
    variables = EnvironmentVariables()
    first = _captured(_set(NEW="1"), variables)
    _captured(_set(NEW="2", OLD="2", HF_TOKEN="t"), variables)

    variables.restore(first)

    assert (os.environ["NEW"], os.environ["OLD"]) == ("1", "old")
    assert "HF_TOKEN" not in os.environ
    assert variables.capture() == first


def test_bytes_that_are_no_text_round_trip():
    taken = _captured(lambda: os.environb.update({b"NEW": b"\xff\x80"}))
    os.environb[b"NEW"] = b""

    EnvironmentVariables().restore(taken)

    assert os.environb[b"NEW"] == b"\xff\x80"


def test_a_change_back_is_captured_like_any_other():
    variables = EnvironmentVariables()
    _captured(_set(OLD="2"), variables)

    assert _captured(_set(OLD="old"), variables) == {"OLD": "old"}


def test_a_value_that_was_there_before_is_captured_when_a_callable_sets_it():
    assert _captured(_set(OLD="".join(["o", "ld"]))) == {"OLD": "old"}


def test_a_second_run_in_the_same_process_finds_the_environment_of_the_first_one():
    first = LibrarySettings()
    with first.watch():
        _set(NEW="1", OLD="2")()
    first.close()

    assert os.environ["OLD"] == "old"
    assert "NEW" not in os.environ


SECRETS = {
    "HF_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "x", "PGPASSWORD": "x", "DB_PASS": "x",
    "wandb_api_key": "x", "DATABASE": "postgres://me:x@host/db",
}  # fmt: skip
NO_SECRETS = {
    "TOKENIZERS_PARALLELISM": "false", "MASTER_ADDR": "10.0.0.1", "PYTHONPATH": "/a:/b@c",
    "KEYBOARD": "de", "PROXY": "http://host:80/a",
}  # fmt: skip


def test_of_secrets_only_digests_are_captured():
    taken = _captured(_set(**SECRETS, **NO_SECRETS))

    assert {name for name, saved in taken.items() if isinstance(saved, dict)} == {*SECRETS}
    assert {name: taken[name] for name in NO_SECRETS} == NO_SECRETS


def test_a_secret_that_is_there_is_taken_and_another_value_is_refused():
    taken = _captured(_set(HF_TOKEN="t"))
    other = EnvironmentVariables()
    other.restore(taken)
    assert other.capture() == taken

    for change, reason in (_set(HF_TOKEN="u"), "another value"), (
        lambda: os.environ.pop("HF_TOKEN"), "is not there",
    ):  # fmt: skip
        change()
        with pytest.raises(EnvironmentFaultError, match=f"HF_TOKEN.*{reason}"):
            EnvironmentVariables().restore(taken)


def test_a_second_attempt_gets_back_a_secret_that_the_first_one_changed():
    variables = EnvironmentVariables()
    first = _captured(_set(HF_TOKEN="t"), variables)
    _captured(_set(HF_TOKEN="u"), variables)

    variables.restore(first)

    assert os.environ["HF_TOKEN"] == "t"


def test_a_secret_is_named_once_when_it_is_captured():
    events = []
    settings = LibrarySettings(events.append)
    with settings.watch():
        _set(HF_TOKEN="t")()
    settings.capture()
    settings.capture()

    (noted,) = events
    assert "HF_TOKEN" in noted.text


def test_nodes_that_share_the_environment_are_warned():
    events = []
    settings = LibrarySettings(events.append, 2)
    with settings.watch():
        _set(RANK="0")()
        settings.capture()

    assert "os.environ['RANK']" in events[0].text
