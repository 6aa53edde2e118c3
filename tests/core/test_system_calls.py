"""A relayed signal has a number of its own, which no library takes."""

from __future__ import annotations

import signal

from jobrun.core.system_calls import MEANT, RELAYS


def test_each_has_a_number_of_its_own_among_the_real_time_ones():
    assert len(set(RELAYS.values())) == len(RELAYS) == 4
    assert all(signal.SIGRTMIN < number < signal.SIGRTMAX for number in RELAYS.values())


def test_what_is_meant_is_found_by_the_number():
    assert {MEANT[number] for number in RELAYS.values()} == {
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGINT,
    }
