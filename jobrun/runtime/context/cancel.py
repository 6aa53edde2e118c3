"""Cancel the steps of a group run: a flag that they check, and a way to wake blocked ones.

It stops nothing by force; steps see it at their next boundary.
"""

from __future__ import annotations

from collections.abc import Callable

Wake = Callable[[], None]
# Passes of a loop between two checks for a cancel. A cancel empties the list it iterates over.
PASSES = 256


class CancelledError(Exception):
    """Raised at a step boundary once the scope is cancelled. Never leaves the session."""


class CancelScope:
    """The cancel scope that everything in one group run shares.

    There is no lock: ``cancel`` may be called from a signal handler, which may interrupt
    the very code that would hold it. Setting an attribute, and adding to and copying a
    dictionary, are each one indivisible act of the interpreter.

    Attributes:
        cancelled: Plain attribute, since it is read at every step boundary. A ``__getattr__`` of
            the class would make that twenty times as slow.
        at_once: Programs get no time to end in good order. Set before ``cancel``.
    """

    __slots__ = ("_lists", "_wakers", "at_once", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self.at_once = False
        # Holds the list of passes; empty until a block loops.
        self._lists: dict[None, list[None]] = {}
        self._wakers: dict[object, Wake] = {}

    @property
    def passes(self) -> list[None]:
        """Return the list that endless loops iterate over; ``cancel`` empties it to end them.

        ``cancel`` empties it, which ends them with the present pass at no cost to the others.
        """
        passes = self._lists.get(None)
        if passes is None:
            # ``setdefault`` is atomic: all looping threads share one list.
            passes = self._lists.setdefault(None, [None] * PASSES)
            if self.cancelled:
                passes.clear()
        return passes

    def cancel(self) -> None:
        """Cancel the scope, so that all its steps end. Thread-safe and repeatable."""
        self.cancelled = True
        # After the flag is set: a loop checks the flag at the end of its list.
        for passes in self._lists.copy().values():
            passes.clear()
        for wake in list(self._wakers.values()):
            wake()

    def check(self) -> None:
        """Raise ``CancelledError``, at a step boundary, if the scope is cancelled.

        Raises:
            CancelledError: The scope was cancelled.
        """
        if self.cancelled:
            raise CancelledError

    def waking(self, wake: Wake) -> _Waking:
        """Call ``wake`` if the cancel scope is cancelled inside a ``with`` block, or was already.

        ``wake`` must not block, and must be safe in a signal handler (such as
        ``SimpleQueue.put``); it may be called more than once.
        """
        return _Waking(self, wake)


class _Waking:
    """The context that ``CancelScope.waking`` returns; a generator would cost more at each run."""

    __slots__ = ("_scope", "_wake")

    def __init__(self, scope: CancelScope, wake: Wake) -> None:
        self._scope = scope
        self._wake = wake

    def __enter__(self) -> None:
        self._scope._wakers[self] = self._wake
        # Checked after registering: a cancel just before it would wake no thread.
        if self._scope.cancelled:
            try:
                self._wake()
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        del self._scope._wakers[self]
