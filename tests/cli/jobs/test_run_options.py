"""Options of commands that execute jobs."""

from __future__ import annotations

import click
import pytest

from jobrun.cli.jobs.run_options import SessionKind


@pytest.mark.parametrize("text", ["threads", "processes", "ray", "ray:auto", "ray:head:6379"])
def test_a_session_is_a_name_with_an_address_if_it_has_one(text):
    assert SessionKind().convert(text, None, None) == text


@pytest.mark.parametrize("text", ["thread", "", "processes:auto", "ray:", "ray:head", "ray:a:b"])
def test_what_is_no_session_is_refused(text):
    with pytest.raises(click.BadParameter):
        SessionKind().convert(text, None, None)
