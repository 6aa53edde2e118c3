"""Compare the source of each of a job's modules with what the run recorded, when it is imported.

The digests of a job's code are taken from its files before the first epoch. A function may import
a module much later, and a pool's new process imports all of them again: what is edited in between
would be executed, and the recorded digest would be that of other code. So the loaders of Python
digest the very bytes that they compile, in each process of a run. Bytecode caches of such modules
are not read: Python compares only a cache's time and length with its source.

What only an import at run time reveals (a computed path) is recorded in the run's directory then,
and compared from then on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from zipimport import zipimporter

from jobrun.core.errors import DriftError
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import write_file
from jobrun.core.files.json_files import parse_json, read_lines

IMPORTED_NAME = "imported.jsonl"
# Directories of installed packages, which are identified by version.
INSTALLED = frozenset({"site-packages", "dist-packages"})
_NOT_USER_CODE = (
    os.path.dirname(os.__file__) + os.sep,  # noqa: PTH120 - Python's own
    str(Path(__file__).parents[2]) + os.sep,
)
# The modules of multiprocessing that start processes which import all modules again.
_STARTERS = frozenset({"popen_spawn_posix", "popen_forkserver", "popen_loky_posix"})


class ChangedCodeError(Exception):
    """A module is not what the run recorded; it is not executed.

    No ``ImportError``, which programs catch to do without a module. It can be pickled: a pool
    raises in its parent what a child has raised.
    """


class ImportedCode:
    """The source of the job's modules in this process: as recorded, and as executed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_installed = False
        self._recorded: Mapping[str, str] | None = None
        self._run_dir = ""
        self._folder = ""
        self._executed: dict[str, str] = {}
        self._fault: ChangedCodeError | None = None

    def install(self) -> None:
        """Install the digests into Python's loaders, once a process, from now on."""
        with self._lock:
            if self._is_installed:
                return
            self._is_installed = True
            _wrap(SourceFileLoader, "get_code", self._get_source_code)
            _wrap(SourcelessFileLoader, "get_code", self._check_file)
            _wrap(ExtensionFileLoader, "create_module", self._check_file)
            _wrap(zipimporter, "get_code", self._check_file)
            # Another thread of the parent may hold it.
            os.register_at_fork(after_in_child=self._renew_lock)
            for name in [*sys.modules]:
                self._watch_starter(name)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def expect(self, recorded: Mapping[str, str], run_dir: str, folder: str) -> None:
        """Refuse from now on each import of a module that is not what was recorded.

        Modules that this process imported earlier, from other source, are imported again.

        Args:
            recorded: The digests of modules by the real path of their files.
            run_dir: Where modules are recorded that only an import reveals.
            folder: That of the spec.
        """
        with self._lock:
            self.install()
            self._recorded, self._run_dir, self._fault = recorded, run_dir, None
            self._folder = os.path.realpath(folder)
            modules = [entry for entry in _list_user_modules() if entry[1] in recorded]
            if any(self._is_stale(module, path) for _, path, module in modules):
                # All of them, as each may hold what another one was before it was edited.
                for name, _, _ in modules:
                    sys.modules.pop(name, None)

    def forget(self) -> None:
        """Stop comparing imported modules: the run has ended."""
        with self._lock:
            self._recorded, self._fault = None, None

    def note(self, error: ChangedCodeError) -> None:
        """Note what a child process has refused to import, so that the run stops here."""
        self._fault = self._fault or error

    def require_unchanged(self) -> None:
        """Raise if the import of a changed module was refused, even if the code caught that.

        Raises:
            DriftError: E465, a module was edited since the run began.
        """
        if self._fault is not None:
            raise DriftError.of("E465", str(self._fault), _MEND) from self._fault

    def check_before_start(self) -> None:
        """Compare the files of all imported modules, as a process that starts now imports them.

        Raises:
            ChangedCodeError: One was edited.
        """
        for name, path, _ in _list_user_modules():
            if path in (self._recorded or {}) and os.path.isfile(path):  # noqa: PTH113
                self._require_recorded(name, path, digest_bytes(Path(path).read_bytes()))

    def check_script(self, path: str) -> None:
        """Compare a script, which a program is started with, if the run recorded it.

        Raises:
            ChangedCodeError: It was edited after the run began.
        """
        real = os.path.realpath(path)
        if real in (self._recorded or {}):
            digest = digest_bytes(Path(real).read_bytes())
            self._require_recorded(os.path.basename(path), real, digest)  # noqa: PTH119

    def state(self) -> tuple[Mapping[str, str], str, str] | None:
        """Return what a child process has to expect, or None outside of a run."""
        if self._recorded is None:
            return None
        return self._recorded, self._run_dir, self._folder

    def _get_source_code(self, original: Callable[..., Any], loader: Any, name: str) -> Any:
        path = str(loader.get_filename(name))
        self._watch_starter(name)
        if not is_user_code(path):
            return original(loader, name)
        data = loader.get_data(path)
        self._check(name, path, data)
        return loader.source_to_code(data, path)

    def _check_file(self, original: Callable[..., Any], loader: Any, name_or_spec: Any) -> Any:
        path = str(getattr(loader, "archive", None) or loader.path)
        name = name_or_spec if isinstance(name_or_spec, str) else name_or_spec.name
        if is_user_code(path):
            self._check(name, path, Path(path).read_bytes())
        return original(loader, name_or_spec)

    def _check(self, name: str, path: str, data: bytes) -> None:
        real, digest = os.path.realpath(path), digest_bytes(data)
        with self._lock:
            self._require_recorded(name, real, digest)
            self._executed[real] = digest

    def _require_recorded(self, name: str, path: str, digest: str) -> None:
        if self._recorded is None:
            return
        known = self._recorded.get(path)
        if known is None and _is_lasting(path, self._folder):
            known = _record(self._run_dir, path, digest)
        if known not in (None, digest):
            self._fault = ChangedCodeError(
                f"'{name}' ({path}) is not what the run recorded: it was edited after "
                f"the run began (was {known[:19]}, is {digest[:19]})"
            )
            raise self._fault

    def _is_stale(self, module: ModuleType, path: str) -> bool:
        """Return whether a module was imported from other source than is recorded."""
        executed = self._executed.get(path)
        if executed is None:
            return _is_other_code(module, path)
        return executed != (self._recorded or {})[path]

    def _watch_starter(self, name: str) -> None:
        package, _, starter = name.rpartition(".")
        if starter in _STARTERS and package:
            _wrap(import_module(f"{package}.spawn"), "get_preparation_data", self._prepare_child)

    def _prepare_child(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.check_before_start()
        data = original(*args, **options)
        state = self.state()
        # The child unpickles this first, and ignores keys that it does not know.
        return data if state is None else {**data, "jobrun": _ChildState(*state)}


class _ChildState:
    """What a process started by ``multiprocessing`` has to expect, from when it is unpickled."""

    def __init__(self, recorded: Mapping[str, str], run_dir: str, folder: str) -> None:
        self._given = dict(recorded), run_dir, folder

    def __reduce__(self) -> tuple[Any, ...]:
        return _expect_in_child, self._given


def _expect_in_child(recorded: Mapping[str, str], run_dir: str, folder: str) -> None:
    IMPORTED_CODE.expect(recorded, run_dir, folder)


IMPORTED_CODE = ImportedCode()

_MEND = "undo the edit, then resume; or take the new code: jobrun fork RUN, or --accept-drift"


def is_user_code(path: str) -> bool:
    """Return whether a file is neither Python's, nor jobrun's, nor of an installed package."""
    return not path.startswith(_NOT_USER_CODE) and INSTALLED.isdisjoint(Path(path).parts)


def read_imported(run: Path) -> dict[str, str]:
    """Read which modules a run has met only when they were imported: digests by path.

    The paths are relative to the run's directory.
    """
    digests: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in read_lines(run / IMPORTED_NAME):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = parse_json(line)
                digests.setdefault(str(entry["path"]), str(entry["digest"]))
    return digests


def refresh_imported(run: Path) -> None:
    """Record the present digests of the modules that only imports have revealed, on a resume.

    Whatever of them has changed was refused before, or accepted.
    """
    present = digest_imported(run)
    if present != read_imported(run):
        lines = (json.dumps({"path": path, "digest": digest}) for path, digest in present.items())
        write_file(run / IMPORTED_NAME, "".join(f"{line}\n" for line in lines).encode())


def digest_imported(run: Path) -> dict[str, str]:
    """Digest what is there now of the modules that ``read_imported`` lists.

    One that is gone counts as unchanged: if it is needed, its import fails.
    """
    return {
        path: digest_bytes((run / path).read_bytes()) if (run / path).is_file() else digest
        for path, digest in read_imported(run).items()
    }


def _is_lasting(path: str, folder: str) -> bool:
    """Return whether a module may be the user's own, and is in no cache of generated code.

    Compilers such as PyTorch's write modules into temporary and hidden directories.
    """
    if path.startswith(folder + os.sep):
        return True
    is_temporary = path.startswith(os.path.realpath(tempfile.gettempdir()) + os.sep)
    return not is_temporary and not any(part.startswith(".") for part in Path(path).parts)


def _record(run_dir: str, path: str, digest: str) -> str:
    """Record a module that only its import has revealed; return the digest that counts for it.

    The first line about a path counts, so processes that import it at once agree.
    """
    name = os.path.relpath(path, run_dir)
    known = read_imported(Path(run_dir)).get(name)
    if known is not None or not os.path.isdir(run_dir):  # noqa: PTH112
        return known or digest
    line = json.dumps({"path": name, "digest": digest}) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.join(run_dir, IMPORTED_NAME), flags, 0o644)  # noqa: PTH118
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    return read_imported(Path(run_dir)).get(name, digest)


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if hasattr(original, "of_jobrun"):
        return

    def wrapped(*args: Any, **options: Any) -> Any:
        return wrapper(original, *args, **options)

    wrapped.of_jobrun = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


def _list_user_modules() -> list[tuple[str, str, ModuleType]]:
    """List the imported modules of user code: name, real path of the file, module."""
    files = [
        (name, getattr(module, "__file__", None), module) for name, module in [*sys.modules.items()]
    ]
    return [
        (name, os.path.realpath(file), module)
        for name, file, module in files
        if name != "__main__" and isinstance(file, str) and is_user_code(file)
    ]


def _is_other_code(module: ModuleType, path: str) -> bool:
    """Return whether a module was imported, before anything was digested, from other source."""
    if not path.endswith(".py"):
        return False
    try:
        present = compile(Path(path).read_bytes(), str(module.__file__), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return True
    known = {*_codes(present)}
    functions = [
        function for function in vars(module).values() if isinstance(function, FunctionType)
    ]
    return any(
        function.__code__ not in known
        for function in functions
        if function.__module__ == module.__name__
        and function.__code__.co_filename == module.__file__
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
