"""Keep the environment variables that callables set or remove, across retries and resumes.

``os.environ["XLA_FLAGS"] = …`` in ``init`` holds for all later calls and programs of the process.
So what callables change is saved with the state, by name, and changed again where that is loaded.
Of a variable whose name or value looks like a secret only a digest is saved: where it is loaded,
the environment must have the value already.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from operator import is_not
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files.digest import digest_bytes

# Words of a name, between underscores; AWS_SECRET_ACCESS_KEY, but not TOKENIZERS_PARALLELISM.
_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:TOKEN|SECRET|KEY|APIKEY|AUTH|PAT|PASS|PASSPHRASE|[A-Z]*PASSWORD|[A-Z]*PASSWD)(?:_.*)?",
    re.IGNORECASE | re.DOTALL,
)
# A URL with a password.
_SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")

# Encoded values; None for a variable that is not set.
_Changes = dict[bytes, bytes | None]


class EnvironmentVariables:
    """The environment variables that the callables of one process have changed.

    Only changes while a group runs that calls are theirs: listeners and sessions make some too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_watched = False
        self._seen = _read()
        # Variables that callables have changed, and their values before.
        self._made: _Changes = {}
        self._before: _Changes = {}
        # Values of secrets by their saved digests, for a retry in this process.
        self._secrets: dict[str, bytes] = {}
        self._reported: set[str] = set()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Record environment variables that callables change inside a ``with`` block."""
        self._seen = _read()
        self._is_watched = True
        try:
            yield
        finally:
            self.note()
            self._is_watched = False

    def note(self) -> Sequence[str]:
        """Record environment variables that callables have changed; return their names.

        Those since the last call, inside of ``watch``.
        """
        if not self._is_watched:
            return ()
        with self._lock:
            changed = self._look()
            for name, (before, value) in changed.items():
                self._before.setdefault(name, before)
                self._made[name] = value
        return [os.fsdecode(name) for name in changed]

    def note_import(self) -> None:
        """Exclude environment variables that a module's import sets: each process imports it.

        One that a callable has set before gets the new value.
        """
        with self._lock:
            for name, (_, value) in self._look().items():
                if name in self._made:
                    self._made[name] = value

    def capture(self) -> Mapping[str, Any]:
        """Return the environment variables that callables have changed, as JSON values by name.

        A value is text, None for a variable that was removed, or the digest of a secret.
        """
        with self._lock:
            return {
                os.fsdecode(name): self._describe(os.fsdecode(name), value)
                for name, value in sorted(self._made.items())
            }

    def restore(self, captured: Mapping[str, Any]) -> None:
        """Set environment variables to captured values; undo other changes by callables.

        Raises:
            EnvironmentFaultError: E268, a secret is not there.
        """
        self.note()
        with self._lock:
            wanted = {
                os.fsencode(name): self._value(name, saved) for name, saved in captured.items()
            }
            for name in self._made.keys() - wanted.keys():
                _put(name, self._before.pop(name))
            now = _read()
            for name, value in wanted.items():
                self._before.setdefault(name, now.get(name))
                _put(name, value)
            self._made = wanted
            self._seen = _read()

    def new_secrets(self, captured: Mapping[str, Any]) -> list[str]:
        """Return which captured environment variables are secrets that no warning has named yet."""
        secrets = {name for name, saved in captured.items() if isinstance(saved, dict)}
        new = sorted(secrets - self._reported)
        self._reported.update(new)
        return new

    def _look(self) -> dict[bytes, tuple[bytes | None, bytes | None]]:
        """Return environment variables changed since the last call: old and new values."""
        now, seen = _read(), self._seen
        # Compared by identity: an equal value of the command may be missing at a resume.
        if now == seen and not any(map(is_not, now.values(), seen.values())):
            return {}
        self._seen = now
        names = [name for name in now | seen if now.get(name) is not seen.get(name)]
        return {name: (seen.get(name), now.get(name)) for name in names}

    def _describe(self, name: str, value: bytes | None) -> Any:
        if value is None:
            return None
        text = os.fsdecode(value)
        if not (_SECRET_NAME.fullmatch(name) or _SECRET_VALUE.search(text)):
            return text
        digest = digest_bytes(value)
        self._secrets[digest] = value
        return {"digest": digest}

    def _value(self, name: str, saved: Any) -> bytes | None:
        if saved is None:
            return None
        if isinstance(saved, str):
            return os.fsencode(saved)
        digest = saved["digest"]
        here = _read().get(os.fsencode(name))
        if here is not None and digest_bytes(here) == digest:
            return here
        if digest in self._secrets:
            return self._secrets[digest]
        difference = "has another value here" if here is not None else "is not there"
        raise EnvironmentFaultError.of(
            "E268",
            f"callables had set the environment variable {name} when the epoch was saved; it looks "
            f"like a secret, so that only its digest is saved, and it {difference}",
            f"resume with {name} as it was, in the environment of the command, or set it at the "
            "top of the module",
        )


def _read() -> dict[bytes, bytes]:
    # Left encoded: decoding all variables takes longer than many callables.
    encoded: dict[bytes, bytes] = vars(os.environ)["_data"]
    return encoded.copy()


def _put(name: bytes, value: bytes | None) -> None:
    if value is None:
        os.environb.pop(name, None)
    else:
        os.environb[name] = value
