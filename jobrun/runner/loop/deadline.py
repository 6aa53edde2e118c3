"""Find the deadline of this process: from the batch system's variables or commands.

Everything is turned into seconds from now at once; after that no wall clock is looked at.

    JOBRUN_DEADLINE         a time in ISO 8601, or seconds since 1970; counts before all others
    Slurm                   SLURM_JOB_END_TIME; where it is not set (before 22.05), squeue
    PBS, Torque             PBS_WALLTIME, from the start of the job's first process
    OAR                     OAR_JOB_WALLTIME_SECONDS, likewise
    Cobalt                  COBALT_ENDTIME
    Flux                    flux job timeleft
    LSF                     bjobs -o time_left
    Grid Engine             qstat -j, its h_rt, from the start of the job's first process
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime

from jobrun.core.errors import UsageError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.system_calls import read_proc, read_process_stat
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.conditions import Deadline

VARIABLE = "JOBRUN_DEADLINE"
_ASK_S = 10.0
_CLOCK = lazy_pattern(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)")
RunCommand = Callable[[list[str]], str]


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The seconds left until the deadline, and where they are known from."""

    seconds: float
    source: str


def time_left(
    deadline: Deadline, environment: Mapping[str, str], now: float, *, ask: RunCommand | None = None
) -> TimeLeft | None:
    """Return the time left until the batch system's deadline; None if no deadline is known.

    Args:
        deadline: As in the spec; its margin is not taken off.
        environment: The process's variables.
        now: Seconds since 1970.
        ask: Runs a command of the batch system; what it printed, or nothing.

    Raises:
        UsageError: E383, ``JOBRUN_DEADLINE`` is no time.
    """
    if deadline.at != "auto":
        return TimeLeft(datetime.fromisoformat(deadline.at).timestamp() - now, "the spec")
    if environment.get(VARIABLE):
        return TimeLeft(_parse_own(environment[VARIABLE]) - now, VARIABLE)
    for name in ("SLURM_JOB_END_TIME", "COBALT_ENDTIME"):
        if environment.get(name, "").isdecimal():
            return TimeLeft(int(environment[name]) - now, name)
    for job, name in (("PBS_JOBID", "PBS_WALLTIME"), ("OAR_JOB_ID", "OAR_JOB_WALLTIME_SECONDS")):
        if environment.get(name, "").isdecimal():
            return TimeLeft(int(environment[name]) - job_age_s(job, environment.get(job)), name)
    return _ask_batch_system(environment, ask or _run_command)


def require_valid_deadline(deadline: Deadline | None, environment: Mapping[str, str]) -> None:
    """Require that ``JOBRUN_DEADLINE`` is a valid time, before a run is made.

    Raises:
        UsageError: E383, it is none.
    """
    if deadline is not None and deadline.at == "auto" and environment.get(VARIABLE):
        _parse_own(environment[VARIABLE])


def job_age_s(variable: str, value: str | None) -> float:
    """Find for the deadline how long ago this process's batch job started, in seconds, or 0.

    It is the oldest of our ancestors that has the job's number in its environment. By the clock
    that runs since the machine's start.
    """
    oldest, pid = 0.0, os.getpid()
    mark = f"{variable}={value}".encode()
    while value and pid > 1:
        variables = read_proc(pid, "environ").split(b"\0")
        facts = read_process_stat(pid)
        up_s = float((read_proc("uptime").split() or [b"0"])[0])
        if mark not in variables or not facts:
            break
        oldest = max(oldest, up_s - int(facts[19]) / os.sysconf("SC_CLK_TCK"))
        pid = int(facts[1])
    return oldest


def parse_clock(text: str) -> float | None:
    """Parse the time to a deadline, ``[days-][[hours:]minutes:]seconds``; None for other text."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _ask_batch_system(environment: Mapping[str, str], ask: RunCommand) -> TimeLeft | None:
    """Ask the batch system for the time left until its deadline."""
    if job := environment.get("SLURM_JOB_ID"):
        return _left(parse_clock(ask(["squeue", "-h", "-j", job, "-o", "%L"])), "squeue")
    if job := environment.get("FLUX_JOB_ID"):
        return _left(_parse_number(ask(["flux", "job", "timeleft", job])), "flux job timeleft")
    if job := environment.get("LSB_JOBID"):
        # "1:30 L": hours and minutes; E follows an estimate, L a limit.
        said = re.match(r"(\d+):(\d+) L", ask(["bjobs", "-noheader", "-o", "time_left", job]))
        return _left(int(said[1]) * 3600.0 + int(said[2]) * 60 if said else None, "bjobs")
    if (job := environment.get("JOB_ID")) and environment.get("SGE_ROOT"):
        said = re.search(r"\bh_rt=(\d+)", ask(["qstat", "-j", job]))
        return _left(float(said[1]) - job_age_s("JOB_ID", job) if said else None, "qstat")
    return None


def _left(seconds: float | None, source: str) -> TimeLeft | None:
    return None if seconds is None else TimeLeft(seconds, source)


def _parse_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    # Without a limit Flux says inf, or 0 in old versions.
    return found if 0 < found < float("inf") else None


def _parse_own(text: str) -> float:
    try:
        return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError.of(
            "E383",
            f"{VARIABLE} is '{text}', which is not a time",
            "give a time such as 2026-11-21T18:30, or seconds since 1970 (date -d ... +%s)",
        ) from None


def _run_command(command: list[str]) -> str:
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command of the batch system
            [program, *command[1:]],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
