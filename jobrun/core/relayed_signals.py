"""Number the signals that the supervisor passes on to its child instead of the originals.

A signal that is sent to a whole process group or container reaches the watched process by itself,
too. A number of its own distinguishes the relayed copy, which is then counted once.
"""

from __future__ import annotations

import signal

# Behind those that C libraries keep for themselves. Where there are no real-time signals, each is
# relayed as itself, and a second copy is recognised by its time alone.
_FIRST = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
_ASKING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)

# By the signal that is meant, and by the number it comes under.
RELAYS: dict[int, int] = {
    int(meant): int(meant) if _FIRST is None else _FIRST + place
    for place, meant in enumerate(_ASKING)
}
MEANT: dict[int, int] = {number: meant for meant, number in RELAYS.items()}
