"""Kill child processes when jobrun dies, however it dies."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

# The variable that marks a program before its PID could be registered.
MARK = "JOBRUN_REAPER"

# A shell that outlives this process by a moment. Its standard input ends when this process ends
# for any reason. It then kills the remaining process groups and every process with the mark,
# which may have been started just before this process died.
_WATCH = """
live=
while read -r sign group; do
  case $sign in
    .) exit 0 ;;
    +) live="$live $group" ;;
    -) rest=
       for one in $live; do [ "$one" = "$group" ] || rest="$rest $one"; done
       live=$rest ;;
  esac
done
for one in $live; do kill -s KILL -- "-$one" 2>/dev/null; done
for pause in 0 0.2 1; do
  sleep "$pause"
  for file in $(grep -l -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
    one=${file#/proc/}
    kill -s KILL "${one%/environ}" 2>/dev/null
  done
done
"""


class ChildReaper:
    """Kills registered process groups when this process dies, by a shell that outlives it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watcher: subprocess.Popen[str] | None = None
        self._mark = secrets.token_hex(16)

    def environment(self) -> dict[str, str]:
        """Return the environment variables by which child processes are recognised."""
        with self._lock:
            self._started()
        return {MARK: self._mark}

    @contextlib.contextmanager
    def watching(self, group: int) -> Iterator[None]:
        """Register child processes to be killed if this process dies inside a ``with`` block."""
        self._tell("+", group)
        try:
            yield
        finally:
            self._tell("-", group)

    def close(self) -> None:
        """End the shell that would kill the child processes if this process died."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                watcher.stdin.write(".\n")
                watcher.stdin.close()
            watcher.wait()

    def _tell(self, sign: str, group: int) -> None:
        with self._lock:
            pipe = self._started().stdin
            # The shell may have been killed: then programs may outlive this process.
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(f"{sign} {group}\n")
                    pipe.flush()

    def _started(self) -> subprocess.Popen[str]:
        if self._watcher is None:
            self._watcher = _start(f"{MARK}={self._mark}")
        return self._watcher


def _start(mark: str) -> subprocess.Popen[str]:
    import subprocess  # noqa: PLC0415 - only with a job that starts programs

    # A separate session, so that a Ctrl-C at the terminal does not reach it.
    return subprocess.Popen(  # noqa: S603 - a fixed text
        ["/bin/sh", "-c", _WATCH, "sh", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
