"""Lease a run in an object store to one directory, so that no other one continues it.

A run's directory may have been copied, and a machine that was cut off may come back: of two that
continue one run, each would delete what the other one still needs. ::

    in the store, JOB/RUN/holder    a word, of the invocation that has last begun to save there
    in the run's directory, holder  each such word that was written from here

An invocation that begins to save must know the word in the store, and replaces it; one that finds
another word later stops saving. A run fetched from its URL gets the word too.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files.disk import disk_faults, read_regular, write_file
from jobrun.core.object_url import ObjectUrl

HOLDER_NAME = "holder"
_MOST_BYTES = 1 << 10


class RunLease:
    """One invocation's lease of a run in an object store.

    Args:
        run: The run's directory.
        url: The run's place.
    """

    def __init__(self, run: Path, url: ObjectUrl) -> None:
        self._run = run
        self._url = url
        self._word = ""

    def require_lease(self) -> None:
        """Take the lease of the run in the object store at first; later require that it is held.

        Raises:
            EnvironmentFaultError: E332, another one does; or the store refuses.
        """
        bucket = Bucket(self._url)
        found = _word_of(bucket)
        known = (self._word,) if self._word else _known(self._run)
        if found and found not in known:
            raise EnvironmentFaultError.of(
                "E332",
                f"the run in {self._url} was continued from another directory than {self._run}",
                f"continue there; or fetch it again: jobrun resume {self._url} --run-dir ANOTHER",
            )
        if not found or not self._word:
            word = secrets.token_hex(8)
            # First here: what is there is then known here, whenever this is cut short.
            _write(self._run, (*_known(self._run), word))
            bucket.put(HOLDER_NAME, [word.encode()], len(word))
            self._word = word


def copy_lease(url: ObjectUrl, run: Path) -> None:
    """Copy the lease of a run in an object store into the directory that is fetched from it."""
    word = _word_of(Bucket(url))
    if word:
        _write(run, (word,))


def _word_of(bucket: Bucket) -> str:
    return (bucket.read(HOLDER_NAME, _MOST_BYTES) or b"").decode("ascii", "replace")


def _known(run: Path) -> tuple[str, ...]:
    with disk_faults("E354", f"read {run / HOLDER_NAME}"):
        try:
            return tuple(read_regular(run / HOLDER_NAME).decode("ascii", "replace").split())
        except FileNotFoundError:
            return ()


def _write(run: Path, words: tuple[str, ...]) -> None:
    with disk_faults("E354", f"write {run / HOLDER_NAME}"):
        write_file(run / HOLDER_NAME, "".join(f"{word}\n" for word in words).encode())
