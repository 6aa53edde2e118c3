"""Programs end when jobrun does, however it ends. It does not decide when to end them earlier."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator

# A shell that outlives this process by a moment: its standard input ends when this process
# is gone, for whatever reason, and then it ends the process groups that are still alive.
_WATCH = """
live=
while read -r sign group; do
  case $sign in
    +) live="$live $group" ;;
    -) rest=
       for one in $live; do [ "$one" = "$group" ] || rest="$rest $one"; done
       live=$rest ;;
  esac
done
for one in $live; do kill -s KILL -- "-$one" 2>/dev/null; done
"""


class Leash:
    """Holds process groups. Started with the first; ``close`` lets go of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watcher: subprocess.Popen[str] | None = None

    @contextlib.contextmanager
    def holding(self, group: int) -> Iterator[None]:
        """While inside, the process group ``group`` is killed if this process dies."""
        self._tell("+", group)
        try:
            yield
        finally:
            self._tell("-", group)

    def close(self) -> None:
        """End the watching shell. May be called twice."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                watcher.stdin.close()
            watcher.wait()

    def _tell(self, sign: str, group: int) -> None:
        with self._lock:
            if self._watcher is None:
                self._watcher = _start()
            pipe = self._watcher.stdin
            # Somebody may have killed the shell: then programs are only less well held.
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(f"{sign} {group}\n")
                    pipe.flush()


def _start() -> subprocess.Popen[str]:
    # A session of its own: a Ctrl-C at the terminal must not reach it.
    return subprocess.Popen(  # noqa: S603 - a fixed text
        ["/bin/sh", "-c", _WATCH],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
