"""Objects by their names in S3, Google Cloud Storage, Azure, or memory. Knows no checkpoints.

The only module that uses obstore. Credentials come from the environment, as the stores' own tools
take them, and are never looked at here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.objecturl import ObjectUrl
from jobrun.formats.files import disk_faults, write_all

# Less is sent in one request; more in parts, each from memory.
PIECE_BYTES = 8 << 20
_CLIENT = {"connect_timeout": "10s", "timeout": "120s"}
_RETRIES: dict[str, Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CODE = re.compile(r"<Code>([^<]{1,80})</Code>(?:.*?<Message>([^<]{0,300})</Message>)?", re.DOTALL)
_STATUS = re.compile(r"Server returned non-2xx status code: (\d{3}[A-Za-z ]*)")
# What is in the memory of this process, by bucket.
_memory: dict[str, Any] = {}


class Bucket:
    """The objects of a store whose names begin with a URL's prefix.

    Any thread. What the store answers may be tried again a few times, for about a minute.

    Args:
        url: The place.

    Raises:
        EnvironmentFaultError: E330, the package is not installed; E331, the store does not do
            what it is asked; E336, there is no such bucket, or no permission. Also of each method.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self.url = url
        self._api = _obstore()
        # That of the URL is the store's own matter, except in memory.
        self._prefix = f"{url.prefix}/" if url.scheme == "memory" and url.prefix else ""
        with self._told("open"):
            self._store = _opened(url)

    def put_new(self, name: str, data: bytes) -> bool:
        """Make an object, at once and as a whole; False if there is one of that name already."""
        try:
            with self._told("write", name):
                self._api.put(self._store, self._prefix + name, data, mode="create")
        except _ThereAlreadyError:
            return False
        return True

    def put(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Make an object, as a whole, in place of one that is there.

        Args:
            name: Its name.
            pieces: Its content. What this raises is raised, and the object does not appear.
            size_bytes: How much that is.
        """
        raised: list[BaseException] = []
        given: Any = _remembering(pieces, raised)
        if size_bytes <= PIECE_BYTES:
            given = b"".join(pieces)
        try:
            with self._told("write", name):
                self._api.put(
                    self._store,
                    self._prefix + name,
                    given,
                    chunk_size=PIECE_BYTES,
                    max_concurrency=4,
                )
        except EnvironmentFaultError:
            if raised:
                raise raised[0] from None
            raise

    def size_bytes(self, name: str) -> int | None:
        """The length of an object; None when there is none."""
        try:
            with self._told("look at", name):
                return int(self._api.head(self._store, self._prefix + name)["size"])
        except FileNotFoundError:
            return None

    def made_at(self, name: str) -> float:
        """When an object was made, by the store's clock, in seconds since 1970; 0 without one."""
        try:
            with self._told("look at", name):
                found = self._api.head(self._store, self._prefix + name)
                return float(found["last_modified"].timestamp())
        except FileNotFoundError:
            return 0.0

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """The whole of a small object; None when there is none.

        Raises:
            EnvironmentFaultError: E331, also of one that is longer.
        """
        try:
            with self._told("read", name):
                found = self._api.get(self._store, self._prefix + name)
                if found.meta["size"] > most_bytes:
                    raise ValueError(f"it has {found.meta['size']} bytes, far too many")
                return bytes(found.bytes())
        except FileNotFoundError:
            return None

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece.

        Raises:
            FileNotFoundError: There is none.
        """
        with self._told("read", name):
            found = self._api.get(self._store, self._prefix + name)
            for piece in found.stream(min_chunk_size=1 << 20):
                yield bytes(piece)

    def download(
        self, name: str, target: Path, size_bytes: int, *, durable: bool = False
    ) -> int | None:
        """Write an object as a new file; how long that is, or None when there is no object.

        Args:
            name: Its name.
            target: The file, which is not there.
            size_bytes: How much it should be; so much has to be free on the disk.
            durable: The file outlasts a power cut; its name is the caller's matter.

        Raises:
            EnvironmentFaultError: Also E313, the disk says no.
        """
        with disk_faults("E313", f"write {target}", needed_bytes=size_bytes):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(target, flags, 0o644)
            try:
                for piece in self.pieces(name):
                    write_all(descriptor, piece)
                if durable:
                    os.fsync(descriptor)
                return os.fstat(descriptor).st_size
            except FileNotFoundError:
                return None
            finally:
                os.close(descriptor)

    def list(self, prefix: str = "") -> dict[str, int]:
        """The lengths of all objects below ``prefix/``, by name."""
        with self._told("list", prefix):
            found = self._api.list(self._store, (self._prefix + prefix) or None)
            cut = len(self._prefix)
            return {str(one["path"])[cut:]: int(one["size"]) for some in found for one in some}

    def folders(self) -> tuple[str, ...]:
        """The first parts of the names that have several."""
        with self._told("list"):
            found = self._api.list_with_delimiter(self._store, self._prefix or None)
            cut = len(self._prefix)
            return tuple(str(one).rstrip("/")[cut:] for one in found["common_prefixes"])

    def copy(self, name: str, to: str) -> None:
        """Make a copy of an object, in the store."""
        with self._told("copy", name):
            self._api.copy(self._store, self._prefix + name, self._prefix + to)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there are no fault."""
        for name in names:
            try:
                with self._told("delete", name):
                    self._api.delete(self._store, self._prefix + name)
            except FileNotFoundError:
                continue

    @contextmanager
    def _told(self, what: str, name: str = "") -> Iterator[None]:
        """Turn what the store says no with into words; that there is no object stays as it is."""
        errors = self._api.exceptions
        try:
            yield
        except FileNotFoundError as error:
            if _is_no_bucket(error):
                raise self._failed(what, name, error) from None
            raise FileNotFoundError(name) from None
        except errors.AlreadyExistsError:
            raise _ThereAlreadyError from None
        except (errors.BaseError, OSError, ValueError) as error:
            # Not as its cause: what it says is long, and said below.
            raise self._failed(what, name, error) from None

    def _failed(self, what: str, name: str, error: Exception) -> EnvironmentFaultError:
        place = self.url / name if name else self.url
        reason = reason_of(error)
        code, mend = "E331", "see whether it can be reached from here; then resume"
        if _is_no_bucket(error):
            code, mend = "E336", f"make '{self.url.bucket}', or name one that is there"
        elif _is_refusal(error, reason):
            code = "E336"
            mend = "see to it that the credentials in the environment allow this"
        return EnvironmentFaultError.of(code, f"cannot {what} {place}: {reason}", mend)


class _ThereAlreadyError(Exception):
    """The object was to be a new one."""


def reason_of(error: BaseException) -> str:
    """What a store says, in one line, without its request ids and the innards of libraries."""
    text = str(error).partition("\n\nDebug source")[0]
    if found := _CODE.search(text):
        return f"{found[1]}: {found[2]}".rstrip(": .") if found[2] else found[1]
    if found := _STATUS.search(text):
        return f"it answers {found[1].strip()}"
    if "error sending request" in text or "Connect" in text:
        return "it does not answer"
    return text.splitlines()[0].rpartition(" - ")[2].strip() if text else type(error).__name__


def _code_of(error: BaseException) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _is_no_bucket(error: BaseException) -> bool:
    return _code_of(error) in {"NoSuchBucket", "ContainerNotFound"} or (
        "The specified bucket does not exist" in str(error)
    )


def _is_refusal(error: BaseException, reason: str) -> bool:
    kinds = {"PermissionDeniedError", "UnauthenticatedError"}
    return type(error).__name__ in kinds or reason.startswith(("it answers 401", "it answers 403"))


def _remembering(pieces: Iterable[bytes], raised: list[BaseException]) -> Iterator[bytes]:
    try:
        yield from pieces
    except BaseException as error:
        raised.append(error)
        raise


def _obstore() -> ModuleType:
    try:
        # Only who keeps checkpoints in an object store needs it.
        import obstore  # noqa: PLC0415
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E330",
            "object stores are reached with the package obstore, which is not installed",
            "pip install 'jobrun[obstore]'",
        ) from error
    return obstore


def _opened(url: ObjectUrl) -> Any:
    store = _obstore().store
    if url.scheme == "memory":
        return _memory.setdefault(url.bucket, store.MemoryStore())
    options: dict[str, Any] = dict(_CLIENT)
    config: dict[str, Any] = {}
    if url.scheme in {"s3", "s3a"}:
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
        if endpoint:
            # All tools of the store take these; the library knows only some of them.
            config["endpoint"] = endpoint
            options["allow_http"] = endpoint.startswith("http://")
    make: Callable[..., Any] = store.from_url
    given: dict[str, Any] = {"config": config} if config else {}
    return make(str(url), client_options=options, retry_config=_RETRIES, **given)
