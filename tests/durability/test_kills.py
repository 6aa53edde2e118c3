"""A thousand kills: nothing that was promised is lost, and every run ends with the same bits."""

from __future__ import annotations

import pytest

from tests.durability.killable import SCENARIOS
from tests.durability.kills import kill
from tests.support.pace import thinned

# In sum more than a thousand.
KILLS = -(-1008 // len(SCENARIOS))


@pytest.mark.parametrize("name", thinned(["within epochs", "saved beside the run"], 2))
def test_some_kills_lose_nothing(name):
    row = kill(name, 8, seed=1)

    assert row.bad == ()
    assert row.kills >= 8


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_thousand_kills_lose_nothing(name):
    row = kill(name, KILLS)

    assert row.bad == ()
    assert row.kills >= KILLS
