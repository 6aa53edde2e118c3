"""Read, write, list and delete objects of a bucket: S3, Google Cloud Storage, Azure, memory.

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

from jobrun.core.codes import Code
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.files.disk import create_file, disk_faults, sync_file, write_all
from jobrun.core.text.object_url import ObjectUrl
from jobrun.core.text.patterns import lazy_pattern

# Smaller objects are sent in one request, larger ones in parts of this size.
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
_CODE = lazy_pattern(
    r"<Code>([^<]{1,80})</Code>(?:.*?<Message>([^<]{0,300})</Message>)?", re.DOTALL
)
_STATUS = lazy_pattern(r"Server returned non-2xx status code: ((\d{3})[A-Za-z ]*)")
# Request Timeout, Conflict, Too Early, Too Many Requests: a retry may succeed.
_PASSING = {"408", "409", "425", "429"}
# Errors from a server that is no such store, or one of another region.
_NO_STORE = ("Received redirect", "Unable to extract metadata")
# Stores in the memory of this process (``memory://``), by bucket.
_memory: dict[str, Any] = {}


class Bucket:
    """The objects of a store whose names begin with a URL's prefix.

    Any thread. What the store answers may be tried again a few times, for about a minute.

    Args:
        url: The place.

    Raises:
        EnvironmentFaultError: E330, the package is not installed; E331, the store does not do
            what it is asked; E336, there is no such bucket, no permission, or it refuses the
            request for good. Also of each method.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self.url = url
        self._api = _obstore()
        # The library applies the prefix of the URL itself, except for stores in memory.
        self._prefix = f"{url.prefix}/" if url.scheme == "memory" and url.prefix else ""
        with self._store_errors("open"):
            self._store = _opened(url)

    def put_new(self, name: str, data: bytes) -> bool:
        """Create a new object in the bucket; return False if its name is taken."""
        try:
            with self._store_errors("write", name, makes=True):
                self._api.put(self._store, self._prefix + name, data, mode="create")
        except _ObjectExistsError:
            return False
        return True

    def put(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Write an object to the bucket, all or nothing; replace an object of the same name.

        Args:
            name: Its name.
            pieces: Its content. What this raises is raised, and the object does not appear.
            size_bytes: How much that is.
        """
        raised: list[BaseException] = []
        content: Any = _remembering(pieces, raised)
        if size_bytes <= PIECE_BYTES:
            content = b"".join(pieces)
        try:
            with self._store_errors("write", name, makes=True):
                self._api.put(
                    self._store,
                    self._prefix + name,
                    content,
                    chunk_size=PIECE_BYTES,
                    max_concurrency=4,
                )
        except EnvironmentFaultError:
            if raised:
                raise raised[0] from None
            raise

    def size_bytes(self, name: str) -> int | None:
        """Return the length of an object in the bucket, or None if the object is missing."""
        try:
            with self._store_errors("look at", name):
                return int(self._api.head(self._store, self._prefix + name)["size"])
        except FileNotFoundError:
            return None

    def made_at(self, name: str) -> float:
        """Return when an object of the bucket was written, in seconds since 1970; 0 if missing."""
        try:
            with self._store_errors("look at", name):
                metadata = self._api.head(self._store, self._prefix + name)
                return float(metadata["last_modified"].timestamp())
        except FileNotFoundError:
            return 0.0

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Read all bytes of a small object in the bucket; None if the object is missing.

        Raises:
            EnvironmentFaultError: E331, also of one that is longer.
        """
        try:
            with self._store_errors("read", name):
                response = self._api.get(self._store, self._prefix + name)
                if response.meta["size"] > most_bytes:
                    raise ValueError(f"it has {response.meta['size']} bytes, far too many")
                return bytes(response.bytes())
        except FileNotFoundError:
            return None

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of an object in the bucket as pieces of bytes.

        Raises:
            FileNotFoundError: There is none.
        """
        with self._store_errors("read", name):
            response = self._api.get(self._store, self._prefix + name)
            for piece in response.stream(min_chunk_size=1 << 20):
                yield bytes(piece)

    def download(
        self, name: str, target: Path, size_bytes: int, *, durable: bool = False
    ) -> int | None:
        """Download an object of the bucket to a new file; return its length, None if missing.

        Args:
            name: Its name.
            target: The file, which is not there.
            size_bytes: How much it should be; so much has to be free on the disk.
            durable: The file outlasts a power cut; its name is the caller's matter.

        Raises:
            EnvironmentFaultError: Also E313, the system refuses.
        """
        with disk_faults("E313", f"write {target}", needed_bytes=size_bytes):
            descriptor = create_file(target)
            try:
                for piece in self.pieces(name):
                    write_all(descriptor, piece)
                if durable:
                    sync_file(descriptor)
                return os.fstat(descriptor).st_size
            except FileNotFoundError:
                return None
            finally:
                os.close(descriptor)

    def list(self, prefix: str = "") -> dict[str, int]:
        """Map the name of each object in the bucket below ``prefix/`` to the object's length."""
        with self._store_errors("list", prefix):
            pages = self._api.list(self._store, (self._prefix + prefix) or None)
            cut = len(self._prefix)
            return {
                str(entry["path"])[cut:]: int(entry["size"]) for page in pages for entry in page
            }

    def folders(self) -> tuple[str, ...]:
        """List the bucket's folders: the parts of object names up to the first slash."""
        with self._store_errors("list"):
            listing = self._api.list_with_delimiter(self._store, self._prefix or None)
            cut = len(self._prefix)
            return tuple(str(prefix).rstrip("/")[cut:] for prefix in listing["common_prefixes"])

    def copy(self, name: str, to: str) -> None:
        """Copy an object of the bucket to another name, inside the object store."""
        with self._store_errors("copy", name):
            self._api.copy(self._store, self._prefix + name, self._prefix + to)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects of the bucket by their names; ignore missing ones."""
        for name in names:
            try:
                with self._store_errors("delete", name):
                    self._api.delete(self._store, self._prefix + name)
            except FileNotFoundError:
                continue

    @contextmanager
    def _store_errors(self, action: str, name: str = "", *, makes: bool = False) -> Iterator[None]:
        """Convert errors of the bucket's library to jobrun's, except ``FileNotFoundError``.

        Of a request that makes an object, 404 means that there is no such place.
        """
        errors = self._api.exceptions
        try:
            yield
        except FileNotFoundError as error:
            if makes or _is_no_bucket(error):
                raise self._failed(action, name, error) from None
            raise FileNotFoundError(name) from None
        except errors.AlreadyExistsError:
            raise _ObjectExistsError from None
        except (errors.BaseError, OSError, ValueError) as error:
            # ``from None``: the library's text is long, and summarized in the message.
            raise self._failed(action, name, error) from None

    def _failed(self, action: str, name: str, error: Exception) -> EnvironmentFaultError:
        location = self.url / name if name else self.url
        reason = summarize_error(error)
        code: Code = "E331"
        mend = "see whether it can be reached from here; then resume"
        if _is_no_bucket(error):
            code, mend = "E336", f"make '{self.url.bucket}', or name one that is there"
        elif _is_refusal(error, reason):
            code = "E336"
            mend = "see to it that the credentials in the environment allow this"
        elif _is_for_good(error):
            code = "E336"
            mend = (
                f"see whether '{self.url}' is a name that the store allows, and the endpoint "
                "and the region in the environment"
            )
        return EnvironmentFaultError.of(code, f"cannot {action} {location}: {reason}", mend)


class _ObjectExistsError(Exception):
    """The object was to be a new one."""


def summarize_error(error: BaseException) -> str:
    """Return the error message of a bucket in one line, without request ids and internals."""
    text = str(error).partition("\n\nDebug source")[0]
    if match := _CODE.search(text):
        # The lines after the first are request ids and times.
        message = " ".join((match[2] or "").strip().partition("\nRequestId")[0].split())
        return f"{match[1]}: {message}".rstrip(": .")
    if match := _STATUS.search(text):
        return f"it answers {match[1].strip()}"
    if "error sending request" in text or "Connect" in text:
        return "it does not answer"
    return text.splitlines()[0].rpartition(" - ")[2].strip() if text else type(error).__name__


def _code_of(error: BaseException) -> str:
    match = _CODE.search(str(error))
    return match[1] if match else ""


def _is_no_bucket(error: BaseException) -> bool:
    return _code_of(error) in {"NoSuchBucket", "ContainerNotFound"} or (
        "The specified bucket does not exist" in str(error)
    )


def _is_refusal(error: BaseException, reason: str) -> bool:
    kinds = {"PermissionDeniedError", "UnauthenticatedError"}
    return type(error).__name__ in kinds or reason.startswith(("it answers 401", "it answers 403"))


def _is_for_good(error: Exception) -> bool:
    """Return whether a bucket's refusal of a request is permanent, so that no retry helps."""
    text = str(error)
    if match := _STATUS.search(text):
        return match[2][0] in "34" and match[2] not in _PASSING
    return any(words in text for words in _NO_STORE)


def _remembering(pieces: Iterable[bytes], raised: list[BaseException]) -> Iterator[bytes]:
    try:
        yield from pieces
    except BaseException as error:
        raised.append(error)
        raise


def _obstore() -> ModuleType:
    try:
        # Lazy: only runs with an object store need it.
        import obstore  # noqa: PLC0415
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E330",
            "object stores need the package obstore, which is not installed",
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
            # All tools of the store read these variables; the library knows only some of them.
            config["endpoint"] = endpoint
            options["allow_http"] = endpoint.startswith("http://")
    make: Callable[..., Any] = store.from_url
    config_options: dict[str, Any] = {"config": config} if config else {}
    return make(str(url), client_options=options, retry_config=_RETRIES, **config_options)
