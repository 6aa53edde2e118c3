"""Run the command line in ``sys.argv``, most commands in a supervised child process."""

from __future__ import annotations

import os
import sys

from jobrun.version import __version__

# Modules that were loaded before, such as those of a measuring tool.
_LOADED_BEFORE = frozenset(sys.modules)

# Known to type checkers by its name. Importing typing would take as long as all of --version.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from jobrun.cli.supervised_child import SharedState
    from jobrun.cli.supervisor import ChildExit, NewsSender

# Commands that run tasks, which may end their process in any way.
_SUPERVISED = {"run", "resume", "fork"}
# For debuggers and profilers, and for tests that kill the process.
_UNGUARDED_VARIABLES = ("JOBRUN_UNGUARDED", "JOBRUN_CRASHPOINT")
# Packages whose modules lose nothing if the interpreter is not torn down.
_CLOSED_BY_US = {
    "jobrun", "click", "yaml", "_yaml", "pydantic", "pydantic_core", "annotated_types",
    "typing_extensions", "typing_inspection", "numpy", "h5py", "threadpoolctl", "xxhash",
    "cython_runtime", "msgspec", "rich", "markdown_it", "mdurl", "pygments",
}  # fmt: skip
_CLOSED_BY_US_ALSO = ("_cython_", "_sysconfigdata_")  # with a version or a platform behind it
# The functions below the entry point, if a script or ``python -m`` called it and no tool did.
_CALLED_ALONE = (["<module>"], ["<module>", "_run_code", "_run_module_as_main"])


def run_program() -> NoReturn:
    """Run the command line of ``python -m jobrun`` or the script ``jobrun``, and end the process.

    The interpreter takes down each module and value one by one as it ends, for as long as a tenth
    of a short command. All that is left out where nothing but a known library is loaded.
    """
    code = main()
    if _is_called_alone() and _has_only_known_modules() and _finish_without_teardown():
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line given to ``__main__``; return the exit code.

    ``--version`` is printed at once, before anything else is imported.

    Args:
        arguments: Without the program's name; None for those of the process.
    """
    _open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        # Answered before anything is imported: scripts ask this often.
        print(f"jobrun {__version__}")  # noqa: T201
        return 0
    from jobrun.core.interpreter import call_with_large_stack  # noqa: PLC0415 - after the short cut

    run = _run_supervised if arguments is None and _is_supervised(words) else _run
    return call_with_large_stack(lambda: run(words))


def _run(words: list[str], shared: SharedState | None = None) -> int:
    """Run a command of ``__main__`` in the current process; return the exit code."""
    from jobrun.core.interpreter import (  # noqa: PLC0415 - after the short cut
        collect_as_usual,
        collect_seldom,
    )

    if os.environ.get("JOBRUN_WRITE_LOG"):
        from jobrun.core.files.written_files import record_writes_if_asked  # noqa: PLC0415 - seldom

        record_writes_if_asked(os.environ)
    collect_seldom()
    try:
        from jobrun.cli.run_command import invoke  # noqa: PLC0415 - much less often

        return invoke(words, shared)
    finally:
        collect_as_usual()


def _is_supervised(words: Sequence[str]) -> bool:
    """Return whether ``__main__`` runs the given command, such as ``run``, in a child process.

    Options before the command take no values.
    """
    command = next((word for word in words if not word.startswith("-")), "")
    asks = any(word in {"-h", "--help"} for word in words)
    return (
        command in _SUPERVISED
        and not asks
        and not any(os.environ.get(name) for name in _UNGUARDED_VARIABLES)
    )


def _run_supervised(words: list[str]) -> int:
    """Run a command of ``__main__`` in a child process, or be that process; return the exit code.

    Without a child where there can be none, and if another program has called ``main``, which is
    what would be started again.
    """
    from jobrun.cli.supervised_child import (  # noqa: PLC0415 - other commands do without
        SupervisedChild,
        find_command_line,
        is_supervised_child,
        run_as_child,
    )
    from jobrun.core.hash_seed import fix_hash_seed, initial_hash_seed  # noqa: PLC0415
    from jobrun.core.system_calls import count_memory_kills  # noqa: PLC0415

    if is_supervised_child():
        return run_as_child(lambda shared: _run(words, shared))
    command_line = find_command_line()
    if not command_line:
        return _run(words)
    killed_before = count_memory_kills()
    try:
        child = SupervisedChild(command_line, initial_hash_seed())
    except OSError:
        fix_hash_seed(command_line)
        return _run(words)
    # While the child's interpreter starts.
    from jobrun.cli.supervisor import NewsSender, supervise  # noqa: PLC0415

    def explain(shared: SharedState, ended: ChildExit) -> int:
        from jobrun.cli.unexpected_end import report_unexpected_end  # noqa: PLC0415 - seldom

        return report_unexpected_end(shared, ended, lambda: count_memory_kills() > killed_before)

    sender: list[NewsSender] = []

    def notify(shared: SharedState, code: int | None) -> None:
        if shared.has_news and not sender:
            sender.append(NewsSender(shared.spared))
        for news_sender in sender:
            news_sender.send(shared.read_news(), code, shared.unexpected_end)

    return supervise(child, explain, notify)


def _open_standard_streams() -> None:
    """Open ``/dev/null`` for each standard stream that is closed as ``__main__.py`` starts.

    Else the next file opened, which may be a checkpoint, gets its number, and whatever a
    library prints goes into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _is_called_alone() -> bool:
    """Return whether Python runs ``__main__`` as main program, without debugger or profiler.

    Those act after it returns, and so does an interpreter that was asked to.
    """
    names, frame = [], sys._getframe(1).f_back
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names in _CALLED_ALONE and not (sys.flags.inspect or sys.flags.dev_mode)


def _has_only_known_modules() -> bool:
    """Return whether all loaded packages allow ``__main__`` to skip the interpreter's teardown.

    Other code may count on its files being closed, and its values being deleted, at the end.
    """
    loaded = {name.partition(".")[0] for name in sys.modules.keys() - _LOADED_BEFORE}
    foreign = loaded - sys.stdlib_module_names - _CLOSED_BY_US
    return all(name.startswith(_CLOSED_BY_US_ALSO) for name in foreign)


def _finish_without_teardown() -> bool:
    """Run exit functions and flush output, so that ``__main__`` may skip Python's teardown.

    Returns:
        False where it has to do it: it waits for threads, and reports what cannot be written.
    """
    threading = sys.modules.get("threading")
    if threading and any(
        not thread.daemon
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
    ):
        return False
    import atexit  # noqa: PLC0415 - in the interpreter, not a file

    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    run_program()
