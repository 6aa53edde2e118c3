"""Who goes on with a run whose files are in an object store: one of its directories, no other.

A run's directory may have been copied, and a machine that was cut off may come back: of two that go
on with one run, each would delete what the other one still needs. ::

    in the store, JOB/RUN/holder    a word, of the invocation that has last begun to save there
    in the run's directory, holder  each such word that was written from here

Whoever begins to save has to know the word that is there, and replaces it; whoever finds another
one afterwards saves no more. A run that is fetched from its URL takes the word along.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from jobrun.checkpoint.bucket import Bucket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.objecturl import ObjectUrl
from jobrun.runner.durable import disk_faults, read_plain, write_whole

HOLDER_NAME = "holder"
_MOST_BYTES = 1 << 10


class Holding:
    """One invocation's right to save into a run's place.

    Args:
        run: The run's directory.
        url: The run's place.
    """

    def __init__(self, run: Path, url: ObjectUrl) -> None:
        self._run = run
        self._url = url
        self._word = ""

    def expect(self) -> None:
        """See that nobody else goes on with the run; the first time, take it.

        Raises:
            EnvironmentFaultError: E332, somebody does; or the store says no.
        """
        bucket = Bucket(self._url)
        found = _word_of(bucket)
        known = (self._word,) if self._word else _known(self._run)
        if found and found not in known:
            raise EnvironmentFaultError.of(
                "E332",
                f"the run in {self._url} was gone on with from another directory than {self._run}",
                f"go on there; or fetch it anew: jobrun resume {self._url} --run-dir ANOTHER",
            )
        if not found or not self._word:
            word = secrets.token_hex(8)
            # First here: what is there is then known here, whenever this is cut short.
            _write(self._run, (*_known(self._run), word))
            bucket.put(HOLDER_NAME, [word.encode()], len(word))
            self._word = word


def take_along(url: ObjectUrl, run: Path) -> None:
    """Let a directory that is made of the run in a store know its word, if it has one."""
    word = _word_of(Bucket(url))
    if word:
        _write(run, (word,))


def _word_of(bucket: Bucket) -> str:
    return (bucket.read(HOLDER_NAME, _MOST_BYTES) or b"").decode("ascii", "replace")


def _known(run: Path) -> tuple[str, ...]:
    with disk_faults(f"read {run / HOLDER_NAME}"):
        try:
            return tuple(read_plain(run / HOLDER_NAME).decode("ascii", "replace").split())
        except FileNotFoundError:
            return ()


def _write(run: Path, words: tuple[str, ...]) -> None:
    with disk_faults(f"write {run / HOLDER_NAME}"):
        write_whole(run / HOLDER_NAME, "".join(f"{word}\n" for word in words).encode())
