"""Numbers under which a watching process passes on signals that reached it alone. Sends none.

A signal that is sent to a whole process group or container reaches the watched process by itself,
too. Under a number of its own the other copy can be told from it, and counts once.
"""

from __future__ import annotations

import signal

# Behind those that C libraries keep for themselves.
_FIRST = signal.SIGRTMIN + 7
_ASKING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)

# By the signal that is meant, and by the number it comes under.
RELAYS: dict[int, int] = {int(meant): _FIRST + place for place, meant in enumerate(_ASKING)}
MEANT: dict[int, int] = {number: meant for meant, number in RELAYS.items()}
