"""Real power cuts, where the machine allows them; where it does not, the reason is known."""

from __future__ import annotations

import pytest

from tests.durability.power_cuts import FILE_SYSTEMS, Cuts, contents_after_a_cut, cut, obstacle


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=lambda kind: kind.name)
def test_row_81_no_real_power_cut_loses_what_was_saved(kind, tmp_path):
    why = obstacle(kind, tmp_path)

    found = Cuts() if why else cut(kind, 6, 0, tmp_path)

    assert found.faults == []
    assert found.cuts >= 6 or why


@pytest.mark.long
@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=lambda kind: kind.name)
def test_a_cut_is_one(kind, tmp_path):
    """What nobody synced is gone after it, what was synced is there."""
    if not obstacle(kind, tmp_path):
        found = contents_after_a_cut(kind, tmp_path)

        assert found["synced"] == b"data"
        assert found.get("not synced", b"") == b""
