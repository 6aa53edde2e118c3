"""Keep the settings of libraries that callables make, across threads, retries and resumes.

``torch.set_default_dtype``, ``jax.config.update``, ``np.seterr`` and their like are called once, in
``init`` or at the top of a module, and hold until the process ends; some of them for one thread
only, and tasks run in several. So what a callable sets holds for all later calls, is saved with the
state of its node, and is set again where that is loaded. No library is imported to be asked.
Environment variables, which many libraries read, are kept with them. Context variables hold for all
later calls too, but are not saved.
"""

from __future__ import annotations

import decimal
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar, copy_context
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import Listener, Noted, ignore
from jobrun.runtime.context.context_variables import (
    NO_VARIABLES,
    Variables,
    describe_variable,
    find_changed,
    make_context,
    merge_changes,
    read_variables,
)

if TYPE_CHECKING:
    from jobrun.runtime.context.environment_variables import EnvironmentVariables

# Values of settings as JSON, by name, such as ``torch.default_dtype``.
Settings = Mapping[str, Any]
T = TypeVar("T")
P = ParamSpec("P")

# The name, among the settings, of all environment variables that callables have changed.
_VARIABLES = "os.environ"

# Almost every result sets flags, such as Inexact; hardly any code reads them.
_FLAGS = "decimal.flags"

_TINY = sys.float_info.min / 2


class _Setting(NamedTuple):
    """How a setting of a library is read and written.

    Attributes:
        default: What it is in a new process or thread; a function is asked, with the library.
    """

    default: Any
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]


def _attribute(path: str, default: Any) -> _Setting:
    parent_path, _, name = path.rpartition(".")
    parent = attrgetter(parent_path)
    return _Setting(default, attrgetter(path), lambda lib, value: setattr(parent(lib), name, value))


def _functions(read: str, write: str, default: Any) -> _Setting:
    getter, setter = attrgetter(read), attrgetter(write)
    return _Setting(default, lambda lib: getter(lib)(), lambda lib, value: setter(lib)(value))


def _jax(name: str, default: Any) -> _Setting:
    return _Setting(
        default,
        attrgetter(f"config.{name}"),
        lambda jax, value: jax.config.update(name, value),
    )


def _sdp(name: str) -> _Setting:
    return _functions(f"backends.cuda.{name}_sdp_enabled", f"backends.cuda.enable_{name}_sdp", True)


def _autocast(device: str) -> _Setting:
    return _Setting(
        False,
        lambda torch: torch.is_autocast_enabled(device),
        lambda torch, value: torch.set_autocast_enabled(device, value),
    )


def _autocast_dtype(device: str, default: str) -> _Setting:
    return _Setting(
        default,
        lambda torch: str(torch.get_autocast_dtype(device)),
        lambda torch, value: torch.set_autocast_dtype(device, _dtype(torch, value)),
    )


def _dtype(torch: Any, name: str) -> Any:
    return getattr(torch, name.removeprefix("torch."))


def _default_device(torch: Any) -> str:
    # The public function takes microseconds, too long after each task.
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    if context is not None and getattr(context, "device_context", None) is None:
        return "cpu"
    return str(torch.get_default_device())


def _omp_threads(torch: Any) -> int:
    # Not the value of a new thread, which is whatever any thread has set.
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() else int(torch.get_num_threads())


def _ask_new_thread(function: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(dict(function())))
    thread.start()
    thread.join()
    return answers[0]


_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "clamp")


def _describe_context(context: decimal.Context) -> dict[str, Any]:
    traps = sorted(signal.__name__ for signal, is_set in context.traps.items() if is_set)
    return {"traps": traps} | {name: getattr(context, name) for name in _CONTEXT_FIELDS}


def _change_context(lib: Any, value: Mapping[str, Any]) -> None:
    context = lib.getcontext()
    for name in _CONTEXT_FIELDS:
        setattr(context, name, value[name])
    for signal in context.traps:
        context.traps[signal] = signal.__name__ in value["traps"]


def _list_flags(context: decimal.Context) -> list[str]:
    return sorted(signal.__name__ for signal, is_set in context.flags.items() if is_set)


def _set_flags(lib: Any, value: Sequence[str]) -> None:
    flags = lib.getcontext().flags
    for signal in flags:
        flags[signal] = signal.__name__ in value


def _describe_zone(lib: Any) -> list[Any]:
    return [*lib.tzname, lib.timezone, lib.altzone]


# Settings by library and by full name, which begins with the library's name.
_Table = Mapping[str, Mapping[str, _Setting]]


def _with_full_names(table: _Table) -> _Table:
    return {
        library: {f"{library}.{name}": setting for name, setting in settings.items()}
        for library, settings in table.items()
    }


# Settings of the process, in the order in which they are written: in PyTorch the older names of
# precisions also change what the newer ones give, and are refused once a newer one was changed.
_SHARED: _Table = _with_full_names({
    "torch": {
        "default_dtype": _Setting(
            "torch.float32",
            lambda torch: str(torch.get_default_dtype()),
            lambda torch, value: torch.set_default_dtype(_dtype(torch, value)),
        ),
        "deterministic": _functions(
            "get_deterministic_debug_mode", "set_deterministic_debug_mode", 0
        ),
        "float32_matmul_precision": _functions(
            "get_float32_matmul_precision", "set_float32_matmul_precision", "highest"
        ),
        **{f"backends.cuda.{backend}_sdp": _sdp(backend)
           for backend in ("flash", "mem_efficient", "math", "cudnn")},
        **{path: _attribute(path, default) for path, default in {
            "utils.deterministic.fill_uninitialized_memory": True,
            "backends.cudnn.enabled": True,
            "backends.cudnn.benchmark": False,
            "backends.cudnn.deterministic": False,
            "backends.mkldnn.enabled": True,
            "backends.mkldnn.deterministic": False,
            "backends.opt_einsum.enabled": True,
            "backends.cuda.matmul.allow_fp16_reduced_precision_reduction": True,
            "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": True,
            "backends.cuda.matmul.allow_fp16_accumulation": False,
            "backends.cuda.matmul.allow_tf32": False,
            "backends.cudnn.allow_tf32": True,
            "backends.fp32_precision": "none",
            "backends.cudnn.conv.fp32_precision": "tf32",
            "backends.cudnn.rnn.fp32_precision": "tf32",
            "backends.cuda.matmul.fp32_precision": "none",
            "backends.mkldnn.matmul.fp32_precision": "none",
            "backends.mkldnn.conv.fp32_precision": "none",
            "backends.mkldnn.rnn.fp32_precision": "none",
        }.items()},
    },
    "jax": {name: _jax(f"jax_{name}", default) for name, default in {
        "enable_x64": False,
        "default_matmul_precision": None,
        "numpy_dtype_promotion": "standard",
        "numpy_rank_promotion": "allow",
        "default_prng_impl": "threefry2x32",
        "threefry_partitionable": True,
        "debug_nans": False,
        "debug_infs": False,
    }.items()},
    # The effect of time.tzset() on the environment variable TZ, which is restored before.
    "time": {
        "zone": _Setting(_describe_zone(time), _describe_zone, lambda lib, _: lib.tzset()),
    },
    "mpmath": {"prec": _attribute("mp.prec", 53)},
    "sys": {"recursion_limit": _functions("getrecursionlimit", "setrecursionlimit", 1000)},
})  # fmt: skip
# Settings of each thread.
_LOCAL: _Table = _with_full_names(
    {
        "torch": {
            "grad_enabled": _functions("is_grad_enabled", "set_grad_enabled", True),
            "num_threads": _functions("get_num_threads", "set_num_threads", _omp_threads),
            "flush_denormal": _Setting(
                False,
                lambda _: _TINY * 1.0 == 0.0,
                lambda torch, value: torch.set_flush_denormal(value),
            ),
            "default_device": _Setting(
                "cpu",
                _default_device,
                lambda torch, value: torch.set_default_device(None if value == "cpu" else value),
            ),
            "autocast.cpu": _autocast("cpu"),
            "autocast.cuda": _autocast("cuda"),
            "autocast.cpu.dtype": _autocast_dtype("cpu", "torch.bfloat16"),
            "autocast.cuda.dtype": _autocast_dtype("cuda", "torch.float16"),
        },
        "sklearn": {
            "config": _Setting(
                lambda sklearn: _ask_new_thread(sklearn.get_config),
                lambda sklearn: dict(sklearn.get_config()),
                lambda sklearn, value: sklearn.set_config(**value),
            )
        },
        "scipy.special": {
            "errors": _Setting(
                lambda special: _ask_new_thread(special.geterr),
                lambda special: dict(special.geterr()),
                lambda special, value: special.seterr(**value),
            )
        },
    }
)
# Settings of a ``contextvars`` context.
_CONTEXT: _Table = _with_full_names(
    {
        "numpy": {
            "errors": _Setting(
                {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
                lambda _: np.geterr(),
                lambda _, value: np.seterr(**value),
            ),
        },
        "decimal": {
            "context": _Setting(
                _describe_context(decimal.DefaultContext),
                lambda lib: _describe_context(lib.getcontext()),
                _change_context,
            ),
            "capitals": _Setting(
                decimal.DefaultContext.capitals,
                lambda lib: lib.getcontext().capitals,
                lambda lib, value: setattr(lib.getcontext(), "capitals", value),
            ),
            "flags": _Setting([], lambda lib: _list_flags(lib.getcontext()), _set_flags),
        },
    }
)
_TABLES = (_SHARED, _LOCAL, _CONTEXT)
# Context variables that imports of the user's modules have set in this process: another session
# finds the modules imported.
_imported_variables: dict[ContextVar[Any], Any] = {}


class _Thread(threading.local):
    """What one thread knows of library settings: the context of its callables, and their values."""

    def __init__(self) -> None:
        self.context = Context()
        self.is_used = False
        self.version = 0
        self.seen: Settings = {}
        # The variables with which the context was made, with the changes recorded since.
        self.variables = NO_VARIABLES

    def read(self) -> dict[str, Any]:
        """Read one thread's library settings, including those in its ``contextvars``."""
        values = _read(_LOCAL)
        # An empty context has no changes.
        return values | self.context.run(_read, _CONTEXT) if self.context else values

    def write(self, wanted: Settings) -> None:
        """Set one thread's library settings, such as torch's number of threads, as given."""
        _write(_LOCAL, wanted)
        self.context.run(_write, _CONTEXT, wanted)

    def take_variables(self, variables: Variables) -> None:
        """Replace this thread's context by one with the given context variables."""
        self.context = make_context(variables, self.context)
        self.variables = variables


class LibrarySettings:
    """The settings of libraries that the callables of one process have made.

    Callables run in a context of their thread's own: ``np.seterr`` and ``decimal.getcontext()``
    change that, and not how numpy's warnings of expressions are reported.

    Args:
        emit: Receives a warning, once, if a callable changes settings that nodes share, or on
            which tasks depend that run at the same time; and if one sets a context variable.
        nodes: How many share them.

    Attributes:
        find_concurrent: Finds two tasks with callables, of the group that runs, which may run at
            the same time.
        find_calls: Describes what may call Python while a callable of a task of that group runs.
    """

    find_concurrent: Callable[[], tuple[str, str] | None]
    find_calls: Callable[[str], str | None]

    def __init__(self, emit: Listener = ignore, nodes: int = 1) -> None:
        self._emit = emit
        self._nodes = nodes
        self._has_warned = False
        self.find_concurrent = lambda: None
        self.find_calls = lambda _: None
        self._lock = threading.Lock()
        self._here = _Thread()
        # Settings of a new process after the import of the callables' modules.
        self._imported: dict[str, Any] = {}
        # Settings that callables have changed; these are saved.
        self._made: dict[str, Any] = {}
        # Created when callables, or a saved epoch, may have set environment variables.
        self._variables: EnvironmentVariables | None = None
        self._version = 0
        # Variables set by modules and callables; the mapping is never changed in place.
        self._context_variables: Variables = read_variables(copy_context()) | _imported_variables
        self._warned_of: set[ContextVar[Any]] = set()
        # The program that embeds jobrun may have changed settings before.
        self._note(_read(_SHARED) | _read(_LOCAL) | _read(_CONTEXT), {}, self._made)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a user's function under library settings (numpy, torch) of earlier calls."""
        self.adopt()
        here = self._here
        here.is_used = True
        return here.context.run(function, *args, **kwargs)

    def call_for_task(self, task: str, function: Callable[[], T]) -> T:
        """Call a user's function of a task under library settings and variables of earlier calls.

        Args:
            task: Its name; empty for what surrounds all tasks of a node.
            function: What is called.

        Raises:
            TaskFailedError: E177, it has set a context variable that something else may see which
                runs at the same time.
        """
        self.adopt()
        return self.run_for_task(task, function)

    def run_for_task(
        self, task: str, function: Callable[[], T], concurrent: str | None = None
    ) -> T:
        """Call a user's function as ``call_for_task`` does, under library settings as they are.

        For what runs beside a task, such as a reader: it would see what the task changes
        meanwhile depending on timing.

        Args:
            task: Its name.
            function: What is called.
            concurrent: What always runs at the same time.
        """
        here = self._here
        here.is_used = True
        try:
            return here.context.run(function)
        finally:
            if here.context or here.variables:
                self._collect_variables(task, concurrent)

    def load(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Import a user's module; do not record library settings that each import makes."""
        self.collect()
        self._note_shared()
        try:
            loaded = self.call(function, *args, **kwargs)
        finally:
            self._collect_imported_variables()
        if self._variables is not None:
            self._variables.note_import()
        here = self._here
        self._note(_read(_SHARED), self._known(), self._imported)
        self._note(here.read(), here.seen, self._imported)
        here.is_used = False
        self.adopt()
        return loaded

    def watch(self) -> AbstractContextManager[None]:
        """Return a context manager that records environment variables as library settings."""
        return self._require_variables().watch()

    def within(self, work: Callable[[], None]) -> None:
        """Call ``work`` under all threads' library settings, then record how it changed them."""
        self.adopt()
        work()
        self.collect()

    def adopt(self) -> None:
        """Set in this thread the library settings that callables have changed in other threads."""
        here, version = self._here, self._version
        if here.version != version:
            here.write(self._known())
            here.seen = here.read()
            here.version = version
        variables = self._context_variables
        if here.variables is not variables:
            here.take_variables(variables)

    def capture_variables(self) -> Variables:
        """Return the context variables that all calls see, to restore them in this process."""
        return self._context_variables

    def restore_variables(self, variables: Variables) -> None:
        """Restore the context variables that ``capture_variables`` returned, for each thread."""
        self._context_variables = variables

    def _collect_variables(self, task: str, concurrent: str | None) -> None:
        """Record the context variables that a callable of a task has set in this thread.

        Args:
            task: Its name.
            concurrent: What always runs at the same time.

        Raises:
            TaskFailedError: E177; nothing of it is recorded then.
        """
        here = self._here
        after = read_variables(here.context)
        changed = find_changed(here.variables, after)
        if not changed:
            return
        concurrent = concurrent or self.find_calls(task)
        if concurrent is not None:
            here.take_variables(here.variables)
            raise TaskFailedError.of(
                "E177",
                f"the callable has set the context variable {describe_variable(changed[0])}, and "
                f"{concurrent} may run at the same time, and see it set or not, depending on "
                "timing",
                "set it at the top of the module, or order the tasks with needs",
            )
        self._note_variables(changed, after)
        self._warn_of_variables(changed)

    def _warn_of_variables(self, changed: list[ContextVar[Any]]) -> None:
        """Warn, once for each, of context variables without which a resumed run would begin."""
        for variable in changed:
            if variable not in self._warned_of:
                self._warned_of.add(variable)
                text = (
                    f"a callable has set the context variable {describe_variable(variable)}: later "
                    "calls see it, but it is not saved, and a resumed run begins without it; set "
                    "it at the top of the module"
                )
                self._emit(Noted(text, "warning"))

    def _collect_imported_variables(self) -> None:
        """Record the context variables that an import in this thread has set."""
        here = self._here
        after = read_variables(here.context)
        changed = find_changed(here.variables, after)
        if changed:
            _imported_variables.update(
                (variable, after[variable]) for variable in changed if variable in after
            )
            self._note_variables(changed, after)

    def _note_variables(self, changed: list[ContextVar[Any]], after: Variables) -> None:
        here = self._here
        with self._lock:
            is_newest = here.variables is self._context_variables
            merged = merge_changes(self._context_variables, changed, after)
            self._context_variables = merged
        if is_newest:
            # Its context is kept: tokens that a callable holds are valid in no other.
            here.variables = merged

    def collect(self) -> None:
        """Record library settings that a callable changed in this thread, for other threads."""
        here = self._here
        if here.is_used:
            here.is_used = False
            values = here.read()
            if values != here.seen:
                self._warn_of_timing(self._note(values, here.seen, self._made))
                here.seen = values

    def capture(self) -> Settings:
        """Return the library settings, such as torch's default dtype, that callables changed.

        Can be called from any thread.
        """
        self._note_shared()
        with self._lock:
            settings = dict(self._made)
        if self._variables is not None and (captured := self._variables.capture()):
            settings[_VARIABLES] = captured
            for name in self._variables.new_secrets(captured):
                text = (
                    f"a callable has set the environment variable {name}, which looks like a "
                    "secret: only its digest is saved, and a resume needs it in the environment "
                    "of the command"
                )
                self._emit(Noted(text, "warning"))
        return settings

    def restore(self, settings: Settings) -> None:
        """Restore the library settings that ``capture`` returned, importing their libraries.

        Raises:
            EnvironmentFaultError: E268, a library is not there, or a setting cannot be made.
        """
        wanted = dict(settings)
        # First, since libraries read environment variables when they are imported.
        self._restore_variables(wanted.pop(_VARIABLES, {}))
        for name in wanted:
            _import_library(name)
        with self._lock:
            for name in self._made.keys() - wanted.keys():
                # Threads with the setting return to the value of a new process.
                self._imported.setdefault(name, _default(name))
            self._made = wanted
            self._version += 1
        _write(_SHARED, self._known())
        self.adopt()

    def close(self) -> None:
        """Stop tracking library settings; reset environment variables that callables have set.

        Another run in this process could not see that its callables set it again.
        """
        self._restore_variables({})
        if "time.zone" in self._made:
            time.tzset()

    def _restore_variables(self, captured: Mapping[str, Any]) -> None:
        if captured or self._variables is not None:
            self._require_variables().restore(captured)

    def _require_variables(self) -> EnvironmentVariables:
        """Return the ``EnvironmentVariables`` of the library settings; create it if missing."""
        if self._variables is None:
            # Only jobs with callables need it.
            from jobrun.runtime.context import environment_variables  # noqa: PLC0415

            self._variables = environment_variables.EnvironmentVariables()
        return self._variables

    def _note_shared(self) -> None:
        """Record which library settings of the whole process callables have changed."""
        names = self._note(_read(_SHARED), self._known(), self._made)
        if self._variables is not None:
            names += [f"{_VARIABLES}['{name}']" for name in self._variables.note()]
        self._warn_of_timing(names)

    def _known(self) -> Settings:
        with self._lock:
            return self._imported | self._made

    def _note(self, values: Settings, known: Settings, into: dict[str, Any]) -> list[str]:
        """Record library settings that differ from their known values; return their names."""
        names = [
            name
            for name, value in values.items()
            if value != (known[name] if name in known else _default(name))
        ]
        if names:
            with self._lock:
                into.update((name, values[name]) for name in names)
                self._version += 1
        return names

    def _warn_of_timing(self, names: list[str]) -> None:
        """Warn of changed library settings that also affect tasks running at the same time."""
        names = [name for name in names if name != _FLAGS]
        if not names or self._has_warned:
            return
        if self._nodes > 1:
            who, mend = "which several nodes share", "use --session processes"
        elif (tasks := self.find_concurrent()) is not None:
            who = f"while tasks may run at the same time, such as '{tasks[0]}' and '{tasks[1]}'"
            mend = "let those that depend on it need the task that makes it (needs:)"
        else:
            return
        self._has_warned = True
        text = (
            f"a callable has changed {names[0]}, a setting of the whole process, {who}: make it at "
            f"the top of the module, or {mend}"
        )
        self._emit(Noted(text, "warning"))


def _read(table: _Table) -> dict[str, Any]:
    """Read the settings of libraries that are imported, by name."""
    values: dict[str, Any] = {}
    for library, settings in table.items():
        module = sys.modules.get(library)
        # Another thread may be importing it.
        if module is None or getattr(module.__spec__, "_initializing", False):
            continue
        for name, setting in settings.items():
            try:
                values[name] = setting.read(module)
            except (AttributeError, RuntimeError):
                # Another version may lack the setting, and PyTorch refuses to read some settings
                # after others were changed.
                continue
    return values


def _write(table: _Table, wanted: Settings) -> None:
    """Set library settings that differ from the wanted values; refuse values a library rejects.

    Raises:
        EnvironmentFaultError: E268, one is not taken.
    """
    for library, settings in table.items():
        for name in [name for name in settings if name in wanted]:
            setting, module = settings[name], sys.modules[library]
            try:
                if setting.read(module) != wanted[name]:
                    setting.write(module, wanted[name])
                if setting.read(module) == wanted[name]:
                    continue
                reason = f"it is {setting.read(module)} then"
            except (AttributeError, RuntimeError, TypeError, ValueError) as error:
                reason = str(error).partition("\n")[0]
            raise _refusal(name, f"{name} cannot be set to {wanted[name]}: {reason}")


def _import_library(name: str) -> None:
    library = _library(name)
    if not any(name in table.get(library, {}) for table in _TABLES):
        raise _refusal(name, f"this version of jobrun does not know the setting {name}")
    try:
        import_module(library)
    except ImportError as error:
        raise _refusal(name, f"{name} cannot be set: {error}") from error


def _library(name: str) -> str:
    """Return the module whose setting has the name, as the tables have it."""
    known = (library for table in _TABLES for library in table)
    matching = (library for library in known if name.startswith(f"{library}."))
    return next(matching, name.partition(".")[0])


def _refusal(name: str, message: str) -> EnvironmentFaultError:
    library = _library(name).partition(".")[0]
    return EnvironmentFaultError.of(
        "E268",
        f"{message}; callables had set it when the epoch was saved",
        f"resume with the versions of jobrun and {library} that the run was made with",
    )


def _default(name: str) -> Any:
    library = _library(name)
    setting = next(table[library][name] for table in _TABLES if name in table.get(library, {}))
    return setting.default(sys.modules[library]) if callable(setting.default) else setting.default
