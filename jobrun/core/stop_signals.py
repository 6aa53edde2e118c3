"""List the signals that ask a run to save and stop, and the numbers under which they are relayed.

Whatever ends a process by default, and is no crash, asks for its end: batch systems, shells, limits
and service managers each have a signal of their own for that. ::

    CLASSIC       handled even where the program that calls jobrun has a handler for it
    others        left to code that handles them already, such as a profiler its SIGPROF

The supervisor passes signals on to its child under numbers of its own: a signal that is sent to a
whole process group or container reaches the child by itself, too; the number distinguishes the
relayed copy, which is then counted once. The numbers are behind those that C libraries keep for
themselves. Where there are no real-time signals, each is relayed as itself, and a second copy is
recognised by its time alone, as is that of a real-time signal.
"""

from __future__ import annotations

import os
import signal
import sys

# Known to type checkers by its name. A supervisor's child waits for each import made before it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

# Each with those who send it; the manual has the same table.
SENDERS = {
    "SIGTERM": "`kill`, `timeout`, Slurm, PBS, Flux, HTCondor, systemd, Docker, Kubernetes",
    "SIGHUP": "a terminal that closes, a broken ssh connection",
    "SIGUSR1": "Slurm's `--signal`, Grid Engine's `-notify` before a pause and its `s_rt`",
    "SIGINT": "Ctrl-C, LSF",
    "SIGUSR2": "Grid Engine's `-notify` before the kill, LSF at its run limit, submitit",
    "SIGXCPU": "the kernel at `ulimit -St`, Grid Engine's `s_cpu` and `s_vmem`, LSF",
    "SIGALRM": "a timer that a launcher has set before it started the run, `timeout -s ALRM`",
    "SIGVTALRM": "such a timer of processor time in the program",
    "SIGPROF": "such a timer of processor time in the program and the kernel",
    "SIGPWR": "a power supply that fails, LXC",
    "SIGIO": "a site",
    "SIGSTKFLT": "a site",
}
CLASSIC = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
# Timers, and what libraries use for themselves: a callable may handle one of them for a moment, so
# what counts is that our handler was called, not that the signal came.
_FLEETING = {"SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGSTKFLT"}

NAMED = tuple(getattr(signal, name) for name in SENDERS if hasattr(signal, name))
_FIRST = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
# By the signal that is meant, and by the number it comes under.
RELAYS: dict[int, int] = {
    int(meant): int(meant) if _FIRST is None else _FIRST + number
    for number, meant in enumerate(NAMED)
}
MEANT: dict[int, int] = {number: meant for meant, number in RELAYS.items()}
_REAL_TIME = (
    ()
    if _FIRST is None
    else tuple({*range(signal.SIGRTMIN, signal.SIGRTMAX + 1)} - RELAYS.keys() - MEANT.keys())
)
# All that ask for the end, but for those of a site.
STOPPING: tuple[int, ...] = (*map(int, NAMED), *_REAL_TIME)
FLEETING = frozenset(
    (*(getattr(signal, name) for name in _FLEETING if hasattr(signal, name)), *_REAL_TIME)
)
# The kernel repeats it each second: it is no more urgent the second time.
REPEATED = frozenset({signal.SIGXCPU})

# Further stop signals of a site: names, such as QUIT or TSTP, separated by commas.
VARIABLE = "JOBRUN_STOP_SIGNAL"
OPTION = "--stop-signal"
# These cannot be handled, tell of a crash, or are needed to watch and to continue processes.
_NEVER = {"KILL", "STOP", "CONT", "CHLD", "CLD", "SEGV", "BUS", "FPE", "ILL", "ABRT", "IOT", "TRAP",
          "SYS"}  # fmt: skip


def own_handler(handler: Handler) -> Handler:
    """Mark a signal handler as jobrun's own, so that processes that tasks fork do not inherit it.

    They get the handler that Python has by default: ``Process.terminate`` must end them, and the
    run must not hear of it.
    """
    handler.is_own = True  # type: ignore[attr-defined]
    return handler


def is_own_handler(handler: object) -> bool:
    """Return whether a signal handler is one that ``own_handler`` has marked."""
    return getattr(handler, "is_own", False) is True


def signal_name(number: int) -> str:
    """Return the name of a stop signal, such as ``SIGTERM`` or ``SIGRTMIN+3``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", number)
        return f"SIGRTMIN+{number - first}" if number > first else f"signal {number}"


def parse_stop_signal(text: str) -> int:
    """Return the number of a signal that a site names as its stop signal.

    Raises:
        ValueError: It is no signal, or one that cannot mean this.
    """
    name = text.strip().upper().removeprefix("SIG")
    if name.isdigit():
        name = signal_name(int(name)).removeprefix("SIG")
    base, _, offset = name.partition("+")
    number = getattr(signal, f"SIG{base}", None)
    if not isinstance(number, signal.Signals) or name in _NEVER or (offset and base != "RTMIN"):
        raise ValueError(text)
    return int(number) + int(offset or 0)


def site_stop_signals(environment: Mapping[str, str]) -> list[int]:
    """Return the stop signals that ``JOBRUN_STOP_SIGNAL`` names; names that are none are left out.

    The option that has the same meaning refuses them.
    """
    numbers = []
    for text in environment.get(VARIABLE, "").replace(",", " ").split():
        try:
            numbers.append(parse_stop_signal(text))
        except ValueError:
            continue
    return numbers


def export_stop_option(arguments: Sequence[str]) -> None:
    """Add the values of ``--stop-signal`` to the environment, which the child process inherits.

    Before anything parses the command line: the supervisor has to block these signals first.
    """
    values = [os.environ.get(VARIABLE, "")]
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name == OPTION:
            values.append(value if equals else following)
    if text := ",".join(filter(None, values)):
        os.environ[VARIABLE] = text


def requested_signals() -> tuple[int, ...]:
    """Return all stop signals of this process, with those that its site has named."""
    return tuple(dict.fromkeys((*STOPPING, *site_stop_signals(os.environ))))


def handleable_signals() -> list[int]:
    """Return the stop signals that this process may handle.

    Ignored from outside (nohup, a shell's background job), a signal stays so. One that a program
    or a library of C code handles, as ``/proc`` shows, stays with it, unless it is a classic one.
    """
    caught = _signals_caught()
    named = set(site_stop_signals(os.environ)) | set(CLASSIC)
    numbers = []
    for number in requested_signals():
        handler = signal.getsignal(number)
        is_free = is_own_handler(handler) or (
            handler is signal.SIG_DFL and not caught >> (number - 1) & 1
        )
        if is_free or (number in named and handler is not signal.SIG_IGN):
            numbers.append(number)
    return numbers


def _signals_caught() -> int:
    """Return as a bit mask which signals of this process have a handler, of C code or Python."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        with open("/proc/self/status", "rb") as file:  # noqa: PTH123 - pathlib takes longer
            lines = file.read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in lines if line.startswith(b"SigCgt")), 0)
