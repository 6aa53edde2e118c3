"""Hundreds of kills: nothing that was promised is lost, and every run ends with the same bits."""

from __future__ import annotations

import pytest

from tests.durability.kill_scenarios import SCENARIOS
from tests.durability.kills import kill
from tests.support.thinning import thinned

# Of each scenario; 'make prove' has ten thousand in all.
KILLS = 40


@pytest.mark.parametrize("name", thinned(["within epochs", "saved beside the run"], 2))
def test_some_kills_lose_nothing(name):
    row = kill(name, 5, seed=1)

    assert row.bad == ()
    assert row.kills >= 5


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_hundreds_of_kills_lose_nothing(name):
    row = kill(name, KILLS)

    assert row.bad == ()
    assert row.kills >= KILLS
