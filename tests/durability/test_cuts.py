"""Real power cuts, where the machine allows them; where it does not, the reason is known."""

from __future__ import annotations

import pytest

from tests.durability.power_cuts import FILE_SYSTEMS, Cuts, contents_after_a_cut, cut, obstacle
from tests.durability.promises import EVENTS, NOTHING, Promises
from tests.support.call_recorder import Change


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=lambda kind: kind.name)
def test_row_81_no_real_power_cut_loses_what_was_saved(kind, tmp_path):
    why = obstacle(kind, tmp_path)

    cuts = Cuts() if why else cut(kind, 6, 0, tmp_path)

    assert cuts.faults == []
    assert cuts.cuts >= 6 or why


@pytest.mark.long
@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=lambda kind: kind.name)
def test_power_cut_loses_unsynced_data(kind, tmp_path):
    """What nobody synced is gone after it, what was synced is there."""
    if not obstacle(kind, tmp_path):
        contents = contents_after_a_cut(kind, tmp_path)

        assert contents["synced"] == b"data"
        assert contents.get("not synced", b"") == b""


def test_torn_journal_line_acknowledges_nothing():
    """A file system that is shut down in the middle of a write takes a part of it."""
    promises = Promises(NOTHING, 2)
    line = b'{"event": "CheckpointCommitted", "epoch": 3}\n'

    promises.see(Change("written", 1, "", "", 0, line[:15]), EVENTS)
    before = promises.now.whole
    promises.see(Change("written", 1, "", "", 15, line[15:]), EVENTS)

    assert before == frozenset()
    assert promises.now.whole == {3}
