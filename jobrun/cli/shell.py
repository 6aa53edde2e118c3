"""The terminal as a command sees it: results to stdout, words to people on stderr.

A reader that goes away (``| head``, a closed pipe) never ends a command and never shows as
a traceback: what nobody reads is dropped.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TextIO

from jobrun.core.errors import EnvironmentFaultError

if TYPE_CHECKING:
    from jobrun.cli.guard import Box

_ENDLESS = 1 << 30
LogFormat = Literal["text", "json", "github"]


@dataclass(slots=True)
class Shell:
    """Where output goes, and how much of it.

    Attributes:
        environment: Of the process; ``NO_COLOR``, ``CI`` and ``TERM`` are looked at.
        debug: Show tracebacks.
        plain: No colours, whatever the terminal can do.
        log_format: How events and faults are said; ``github`` adds an annotation to each fault.
        texts: What was given by options that are no files, by the name that places in the
            spec give them, such as ``--set #1``.
        is_heard: Whether results reach anybody; False once their reader has gone away.
        box: Where a watched process keeps what it is about; None where nobody watches.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    debug: bool = False
    plain: bool = False
    log_format: LogFormat = "text"
    texts: dict[str, str] = field(default_factory=dict)
    box: Box | None = None
    is_heard: bool = True

    def print(self, text: str) -> None:
        """Write a result to stdout, with a line end.

        Raises:
            EnvironmentFaultError: It cannot be written (a full disk); not when the reader is gone.
        """
        try:
            _write(sys.stdout, text + "\n")
        except OSError as error:
            _silence(sys.stdout)
            self.is_heard = False
            if error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
                raise EnvironmentFaultError.of(
                    "E410",
                    f"the output cannot be written: {error.strerror}",
                    "send standard output to a place with space",
                ) from error

    def say(self, text: str) -> None:
        """Write a line for people to stderr; never raises."""
        try:
            _write(sys.stderr, text + "\n")
        except OSError:
            _silence(sys.stderr)

    @property
    def terminal(self) -> bool:
        """Whether a person looks at stderr."""
        return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()

    @property
    def colours(self) -> bool:
        """Whether words on stderr may have colours."""
        return self._colours_on(sys.stderr)

    @property
    def result_colours(self) -> bool:
        """Whether results on stdout may have colours."""
        return self._colours_on(sys.stdout)

    @property
    def result_width(self) -> int:
        """The columns that a line of a result may take; very many where it is no terminal's."""
        return shutil.get_terminal_size().columns if self.on_terminal else _ENDLESS

    @property
    def on_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()

    def _colours_on(self, stream: TextIO | None) -> bool:
        quiet = self.plain or self.environment.get("NO_COLOR") or self._dumb
        return stream is not None and not stream.closed and stream.isatty() and not quiet

    @property
    def live(self) -> bool:
        """Whether a display that redraws itself is in place."""
        able = self.terminal and not self._dumb and _draws(sys.stderr)
        return able and not self.environment.get("CI")

    @property
    def _dumb(self) -> bool:
        return self.environment.get("TERM") == "dumb"

    def paint(self, text: str, *styles: str, result: bool = False) -> str:
        """``text`` with the named styles where colours are wanted, else as it is.

        Args:
            text: To be said, or printed.
            styles: Names of styles.
            result: It goes to stdout.
        """
        wanted = self._colours_on(sys.stdout) if result else self.colours
        if not wanted or not styles:
            return text
        codes = ";".join(_STYLES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"


_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def _draws(stream: TextIO) -> bool:
    """Whether bars and marks can be written to it."""
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or stream.closed:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # LANG=C on an old libc: better a question mark than no word at all.
        stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()


def _silence(stream: TextIO | None) -> None:
    """Send what is still buffered, and all that follows, to the null device."""
    if stream is None or stream.closed:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    stream.flush()
