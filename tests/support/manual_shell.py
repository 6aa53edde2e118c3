"""Run the commands of a page of the manual in one bash, as a reader types them."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LONGEST_S = 300
_KILLED = 128 + signal.SIGKILL
_RUN = re.compile(r"\b\d{8}-\d{4}-[a-z]+-[a-z]+\b")
_MEASURED = (
    (_RUN, "RUN"),
    (re.compile(r"\.(?:tmp|del)-epoch-[0-9a-f-]+"), "TEMPORARY"),
    (re.compile(r"\b[\d.]+ (?:ms|s|min|h)\b"), "TIME"),
    (re.compile(r"\b[\d.]+ [KMG]?i?B\b"), "SIZE"),
    # At which epoch a kill hits is chance.
    (re.compile(r"\b(continuing from|continues after) epoch \d+"), r"\1 epoch N"),
)
# What is printed or not as the kill, and the load of the machine, want it.
_BY_CHANCE = (
    re.compile(r"removed TEMPORARY, which an interrupted save had left behind ?"),
    re.compile(
        r"from epoch \d+ on, an epoch is saved about every .*?\(checkpoint\.every: auto\) ?"
    ),
    re.compile(r"epoch \d+ of at most \d+ (?:\w+ [\d.]+ )*TIME ?"),
)
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page.

    Attributes:
        text: One or several lines of bash.
        code: The exit code that its comment announces: ``# exit 75``.
        killed: Its comment, or what it prints, says that it is killed: ``# kill -9``.
        shown: The output that the page shows; None if it shows none.
    """

    text: str
    code: int = 0
    killed: bool = False
    shown: str | None = None


def read_commands(text: str) -> Iterator[Command]:
    """Read the commands of a block of bash, each with what its comment announces."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if not _is_whole("\n".join(lines)):
            continue
        words, _, comment = line.partition(" #")
        if line.startswith("#"):
            words = ""
        whole = "\n".join([*lines[:-1], words]).strip()
        lines = []
        if whole:
            yield _command(whole, comment)
    assert lines == [], f"not a whole command: {lines}"


def read_session(text: str) -> Iterator[Command]:
    """Read the commands of a recorded session, ``$ command``, each with its output."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = piece.partition("\n")
        words, _, _ = line.partition(" #")
        output, killed, _ = shown.partition("Killed ")
        yield Command(words.strip(), _KILLED if killed else 0, bool(killed), output)


def _command(text: str, comment: str) -> Command:
    announced = re.search(r"\bexit (\d+)\b", comment)
    killed = announced is None and "kill -9" in comment
    code = int(announced[1]) if announced else _KILLED if killed else 0
    return Command(text, code, killed)


def _is_whole(text: str) -> bool:
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr and not text.endswith("\\")


class PageShell:
    """A bash in which the commands of a page run one by one, with variables that stay.

    Args:
        folder: Where it begins.
        variables: All of its environment.
        words: The command line that starts it.
    """

    def __init__(
        self, folder: Path, variables: Mapping[str, str], words: Sequence[str] = ("bash",)
    ) -> None:
        self._folder = folder
        reader, writer = os.pipe()
        self._codes = reader
        self._process = subprocess.Popen(
            [*words], cwd=folder, env=dict(variables), pass_fds=(writer,), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        os.close(writer)
        # What a command starts in the background must not hold it.
        self._say(f"exec 9>&{writer} {writer}>&-; cd '{folder}'")

    def run(self, command: Command) -> str:
        """Run a command to its announced end, and return what it printed.

        Raises:
            AssertionError: It ends otherwise, or prints what the page does not show.
        """
        output = self._folder / ".output"
        saved = self._saved()
        redirected = f"</dev/null >'{output}' 2>&1 9>&-"
        if command.killed:
            self._say(f"{command.text} {redirected} &\necho $! >&9")
            pid = self._read()
            _kill_when(lambda: self._saved() > saved, pid)
            self._say("wait $!; echo $? >&9")
        else:
            self._say(f"{{ {command.text}\n}} {redirected}; echo $? >&9")
        code = self._read()
        printed = output.read_text()
        assert code == command.code, f"{command.text}\nends with {code}\n{printed}"
        if command.shown is not None:
            difference = differences(command.shown, printed)
            assert not difference, f"{command.text}\n{difference}"
        return printed

    def close(self) -> None:
        """End it, and what it has left in the background."""
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._codes)

    def _say(self, text: str) -> None:
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def _read(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self._codes], [], [], _LONGEST_S)
            assert ready, "a command does not end"
            text += (got := os.read(self._codes, 100))
            assert got, "the shell has ended"
        return int(text)

    def _saved(self) -> int:
        """Count the epochs that the runs here have reported as saved, but for the first of each."""
        # Not through ``latest`` too: it moves to a run that has saved nothing yet.
        runs = [path for path in self._folder.glob("runs/*/*") if not path.is_symlink()]
        journals = [
            path / "committed.jsonl" for path in runs if (path / "committed.jsonl").exists()
        ]
        return sum(max(path.read_bytes().count(b"\n") - 1, 0) for path in journals)


def _kill_when(condition: Callable[[], bool], pid: int) -> None:
    """Kill a process as soon as a condition holds."""
    end = time.monotonic() + _LONGEST_S
    while not condition():
        assert time.monotonic() < end, "nothing is saved"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)


def differences(shown: str, printed: str) -> str:
    """Say how the output of a page differs from a real one; empty if it does not.

    Lines may be broken elsewhere. ``…`` on the page is any number of lines.
    """
    wanted, actual = (_comparable(text) for text in (shown, printed))
    for line in _BY_CHANCE:
        wanted, actual = (
            line.sub(lambda match, other=other: match[0] if match[0].strip() in other else "", text)
            for text, other in ((wanted, actual), (actual, wanted))
        )
    pieces = [piece.strip() for piece in wanted.split(_ELLIPSIS)]
    if re.fullmatch(".*".join(map(re.escape, pieces)), actual.strip()):
        return ""
    return f"the page shows\n{wanted}\nand it prints\n{actual}"


def _comparable(text: str) -> str:
    text = " ".join(text.split())
    for pattern, name in _MEASURED:
        text = pattern.sub(name, text)
    return text
