"""Restore process state (directory, umask, streams, locale, signals) that callables change.

A callable may change the working directory, the mask of new files, the standard streams, the
locale or the handlers of signals: of what comes later in this process, and of nothing in a process
that resumes the run. So all of that is put back when a group has run, and reported once. Draws from
a global random generator that is not part of the state are reported: a resumed run has others.
"""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from jobrun.core.events import Listener, Noted
from jobrun.core.stop_signals import NAMED
from jobrun.core.system_calls import read_proc

# This module is loaded only if the job declares the generators as part of its state.
_DECLARING = "jobrun.generators"
_AGAIN = 2
# A description, the saved value, and a function that restores it and returns whether it differed.
_Kind = tuple[str, Any, Callable[[Any], bool]]


class ProcessState:
    """Restores process state that a group's run has changed. Costs a few microseconds for each.

    Args:
        emit: Receives a warning, once for each kind.
    """

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._reported: set[str] = set()
        self._runs = 0
        self._drawn: Counter[str] = Counter()
        self._kinds: tuple[_Kind, ...] = (
            ("the mask of new files", _mask_of_new_files(), _put_mask),
            ("the working directory", _directory(), _put_directory),
            ("the locale", locale.setlocale(locale.LC_ALL), _put_locale),
            ("the handlers of signals", _handlers(), _put_handlers),
        )

    @contextlib.contextmanager
    def preserve(self) -> Iterator[None]:
        """Restore the process's streams, umask, directory, locale and signal handlers on exit."""
        streams = _streams()
        self._runs += 1
        # Only at runs 1, 2, 4, 8, …: a comparison takes as long as a small epoch.
        is_watched = self._runs & (self._runs - 1) == 0 and _DECLARING not in sys.modules
        generators = _read_generators() if is_watched else {}
        try:
            yield
        finally:
            if generators and _DECLARING not in sys.modules:
                self._compare_generators(generators)
            if _put_streams(streams):
                self._tell("the standard streams")
            for name, value, put in self._kinds:
                if put(value):
                    self._tell(name)

    def _compare_generators(self, before: dict[str, object]) -> None:
        """Warn if tasks drew from the process's random generators: no resume restores them."""
        after = _read_generators()
        for name, state in before.items():
            if after[name] == state:
                continue
            self._drawn[name] += 1
            # The import of a module, such as rich.style, may draw once.
            if self._drawn[name] == _AGAIN:
                self._emit(
                    Noted(
                        f"a task draws from the global generator of {name}, which is not part of "
                        "the state: after a resume it draws other numbers (declare it with "
                        "jobrun.generators:seeded, see 'jobrun explain objects')",
                        "warning",
                    )
                )

    def _tell(self, name: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            text = f"a task has changed {name} of the whole process; that is put back"
            self._emit(Noted(f"{text} after each group", "warning"))


def _read_generators() -> dict[str, object]:
    """Read process state: the global random generators of random, numpy and torch."""
    states: dict[str, object] = {}
    if (module := sys.modules.get("random")) is not None:
        states["random"] = module.getstate()
    if (module := sys.modules.get("numpy.random")) is not None:
        kind, keys, *position = module.get_state()
        states["numpy.random"] = (kind, keys.tobytes(), *position)
    if (module := sys.modules.get("torch")) is not None:
        states["torch"] = module.get_rng_state().numpy().tobytes()
    return states


def _mask_of_new_files() -> int | None:
    """Return the process's umask, to restore it later; None if reading it would change it."""
    for line in read_proc("self", "status").splitlines():
        if line.startswith(b"Umask:"):
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
    # Compared by identity: a stream may be of any class, with any ``__eq__``.
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
    return [signal.getsignal(number) for number in NAMED]


def _put_handlers(handlers: list[Any]) -> bool:
    if _handlers() == handlers or threading.current_thread() is not threading.main_thread():
        return False
    for number, handler in zip(NAMED, handlers, strict=True):
        if handler is not None:
            signal.signal(number, handler)
    return True
