"""Write results to stdout and messages to stderr, as the terminal permits.

A reader that goes away (``| head``, a closed pipe) never ends a command and never shows as
a traceback: output without a reader is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from msgspec import Struct, field

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.terminal_text import style, terminal_line

if TYPE_CHECKING:
    from jobrun.cli.supervised_child import SharedState

_ENDLESS = 1 << 30
# Is set where a shell asks what could follow on a command line.
COMPLETION_VARIABLE = "_JOBRUN_COMPLETE"
LogFormat = Literal["text", "json", "github"]


class Shell(Struct):
    """The output streams of a command, and how to write to them.

    Attributes:
        environment: Of the process; ``NO_COLOR``, ``CI`` and ``TERM`` are looked at.
        debug: Show tracebacks.
        plain: No colours, whatever the terminal can do.
        log_format: How events and faults are said; ``github`` adds an annotation to each fault.
        texts: What was given by options that are no files, by the name that places in the
            spec give them, such as ``--set #1``.
        has_reader: Whether results reach anybody; False once their reader has gone away.
        shared: Shared memory of a supervised process; None without a supervisor.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    debug: bool = False
    plain: bool = False
    log_format: LogFormat = "text"
    texts: dict[str, str] = field(default_factory=dict)
    shared: SharedState | None = None
    has_reader: bool = True

    def print(self, *lines: str) -> None:
        """Write the lines of a command's result to stdout, whether or not that is a terminal.

        A line end within a line is foreign text, and is shown as any other control character.

        Raises:
            EnvironmentFaultError: It cannot be written (a full disk); not when the reader is gone.
        """
        try:
            _write(sys.stdout, lines)
        except OSError as error:
            _silence(sys.stdout)
            self.has_reader = False
            if error.errno not in (errno.EPIPE, errno.ESHUTDOWN):
                raise EnvironmentFaultError.of(
                    "E410",
                    f"cannot write to standard output: {error.strerror}",
                    "redirect standard output to a place with free space",
                ) from error

    def print_text(self, text: str) -> None:
        """Write to stdout a result whose line ends are its own, such as a JSON document."""
        self.print(*text.split("\n"))

    def say(self, *lines: str) -> None:
        """Write the lines of a message for people to the terminal's stderr; never raises."""
        try:
            _write(sys.stderr, lines)
        except OSError:
            _silence(sys.stderr)

    @property
    def terminal(self) -> bool:
        """Return whether stderr is a terminal."""
        return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()

    @property
    def colours(self) -> bool:
        """Return whether messages on the terminal (stderr) may have colours."""
        return self._colours_on(sys.stderr)

    @property
    def result_colours(self) -> bool:
        """Return whether results on the terminal (stdout) may have colours."""
        return self._colours_on(sys.stdout)

    @property
    def result_width(self) -> int:
        """Return the width of stdout in columns; practically unlimited if it is no terminal."""
        return _columns(1) if self.on_terminal else _ENDLESS

    @property
    def message_width(self) -> int:
        """Return the width of stderr in columns; practically unlimited if it is no terminal."""
        return _columns(2) if self.terminal else _ENDLESS

    @property
    def on_terminal(self) -> bool:
        """Return whether stdout is a terminal."""
        return sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()

    def _colours_on(self, stream: TextIO | None) -> bool:
        quiet = self.plain or self.environment.get("NO_COLOR") or self._dumb
        return stream is not None and not stream.closed and stream.isatty() and not quiet

    @property
    def live(self) -> bool:
        """Return whether a display that redraws itself can be shown on the terminal (stderr)."""
        able = self.terminal and not self._dumb and _draws(sys.stderr)
        return able and not self.environment.get("CI")

    @property
    def _dumb(self) -> bool:
        return self.environment.get("TERM") == "dumb"

    def paint(self, text: str, *styles: str, result: bool = False) -> str:
        """Colour a text with the named styles if the terminal shows colours.

        Args:
            text: To be said, or printed.
            styles: Names of styles.
            result: It goes to stdout.
        """
        wanted = self._colours_on(sys.stdout) if result else self.colours
        if not wanted or not styles:
            return text
        return style(text, ";".join(_STYLES[name] for name in styles))


_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def _draws(stream: TextIO) -> bool:
    """Return whether a terminal's encoding, such as UTF-8, can show progress bars and marks."""
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def _write(stream: TextIO | None, lines: Sequence[str]) -> None:
    if stream is None or stream.closed:
        return
    text = "".join(f"{terminal_line(line)}\n" for line in lines)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # LANG=C on an old libc: better a question mark than no word at all.
        stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()


def _silence(stream: TextIO | None) -> None:
    """Redirect stdout or stderr to the null device, after its terminal or pipe has failed."""
    if stream is None or stream.closed:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    stream.flush()


def _columns(descriptor: int) -> int:
    """Return the width of a descriptor's terminal in columns; ``COLUMNS`` takes precedence."""
    with contextlib.suppress(OSError):
        if (columns := os.get_terminal_size(descriptor).columns) and "COLUMNS" not in os.environ:
            return columns
    from shutil import get_terminal_size  # noqa: PLC0415 - with all archive formats

    return get_terminal_size().columns
