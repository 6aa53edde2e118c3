"""What belongs to the whole process, as callables find it and must leave it. Not their blobs.

A callable may change the working directory, the mask of new files, the standard streams, the
locale or the handlers of signals: of what comes later in this process, and of nothing in a process
that resumes the run. So all of that is put back when a group has run, and told once.
"""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jobrun.core.events import Listener, Noted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
# What it is, how it was, and what puts it back and tells whether it differed.
_Kind = tuple[str, Any, Callable[[Any], bool]]


class Surroundings:
    """Puts back what a group's run has changed. Costs a few microseconds for each.

    Args:
        emit: Is told, once of each kind.
    """

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._told: set[str] = set()
        self._kinds: tuple[_Kind, ...] = (
            ("the mask of new files", _mask_of_new_files(), _put_mask),
            ("the working directory", _directory(), _put_directory),
            ("the locale", locale.setlocale(locale.LC_ALL), _put_locale),
            ("the handlers of signals", _handlers(), _put_handlers),
        )

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A context at whose end the streams are as at its beginning, and the rest as at first."""
        streams = _streams()
        try:
            yield
        finally:
            if _put_streams(streams):
                self._tell("the standard streams")
            for name, value, put in self._kinds:
                if put(value):
                    self._tell(name)

    def _tell(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            text = f"a task has changed {name} of the whole process; that is put back"
            self._emit(Noted(f"{text} after each group", "warning"))


def _mask_of_new_files() -> int | None:
    """The umask; None where only a change would tell it, which other threads would see."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return None


def _put_mask(mask: int | None) -> bool:
    return mask is not None and os.umask(mask) != mask


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same, and takes longer
    except FileNotFoundError:
        return ""


def _put_directory(path: str) -> bool:
    if not path or _directory() == path:
        return False
    with contextlib.suppress(OSError):
        os.chdir(path)
    return True


def _streams() -> tuple[Any, Any, Any]:
    return sys.stdin, sys.stdout, sys.stderr


def _put_streams(streams: tuple[Any, Any, Any]) -> bool:
    # Not compared with "==": a stream may be of any class.
    first, second, third = streams
    if sys.stdin is first and sys.stdout is second and sys.stderr is third:
        return False
    sys.stdin, sys.stdout, sys.stderr = streams
    return True


def _put_locale(name: str) -> bool:
    if locale.setlocale(locale.LC_ALL) == name:
        return False
    locale.setlocale(locale.LC_ALL, name)
    return True


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in _SIGNALS]


def _put_handlers(handlers: list[Any]) -> bool:
    if _handlers() == handlers or threading.current_thread() is not threading.main_thread():
        return False
    for number, handler in zip(_SIGNALS, handlers, strict=True):
        if handler is not None:
            signal.signal(number, handler)
    return True
