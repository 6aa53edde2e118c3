"""A script for Slurm that runs a spec as often as it takes, and handing it to sbatch.

The script is the whole of it: Slurm tells the shell shortly before the time is over, the run saves
and ends with 75, and the script has Slurm start the same job again, which goes on.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.version import __version__

# What the script itself says of them is what makes it work.
_OWN = {
    "signal": "say how long before the end with --warn",
    "requeue": "it is always there",
    "no-requeue": "leave it out: a job that ended early is put back by its script",
    "open-mode": "it is always append, so that no start overwrites what another one said",
    "array": "submit once for each point; jobrun sweep runs many points in one job",
    "wrap": "the script is what runs",
    "chdir": "change to the directory before you submit",
}
_KEY = re.compile(r"[a-z][a-z-]*")
_PLAIN = re.compile(r"[\w./:@%+=,\[\]*-]*")
_ASK_S = 60.0
# What is left for the end of the process, and for the script, before Slurm kills both.
_AFTER_SAVING_S = 20


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be asked of Slurm, and what is to run.

    Attributes:
        name: Of the batch job.
        command: The words of ``jobrun run SPEC …``, without what the script adds.
        jobrun: The words that start this program.
        directory: Where it is to run, absolute.
        runs: The directory of the runs of the job; its parent gets the output.
        settings: Further options of sbatch, by their long names; empty text for one without value.
        warn_s: How long before the end of its time the run is told, in seconds.
        hosts: How many; with several, a Ray cluster is started on them for the job.
        before: Lines of shell that come before the run.
        again: A run that ended early is put back; not where nothing is saved.
        has_deadline: The spec, or the command, says by itself when all must be saved.
    """

    name: str
    command: tuple[str, ...]
    jobrun: tuple[str, ...]
    directory: Path
    runs: Path
    settings: tuple[tuple[str, str], ...] = ()
    warn_s: int = 120
    hosts: int = 1
    before: tuple[str, ...] = ()
    again: bool = True
    has_deadline: bool = False


def setting(text: str) -> tuple[str, str]:
    """``KEY=VALUE``, or ``KEY``, of an option of sbatch.

    Raises:
        UsageError: E403, it is no option, or one that is the script's own.
    """
    key, _, value = text.partition("=")
    key = key.removeprefix("--")
    if not _KEY.fullmatch(key):
        raise UsageError.of(
            "E403", f"--slurm cannot be '{text}'",
            "give a long option of sbatch, such as --slurm mem=4G or --slurm exclusive",
        )  # fmt: skip
    if key in _OWN:
        raise UsageError.of("E403", f"--slurm {key} is the script's own", _OWN[key])
    if not value.isprintable() or '"' in value:
        raise UsageError.of(
            "E403", f"the value of --slurm {key} has a quote or a line break",
            "such a value cannot stand in a line of #SBATCH",
        )  # fmt: skip
    return key, value


def slurm_time(seconds: float) -> str:
    """Seconds as Slurm reads them, rounded up to whole ones: ``1-02:00:00``."""
    whole = int(-(-seconds // 1))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def script(batch: Batch) -> str:
    """The text of the script, for bash."""
    lines = ["#!/bin/bash", *_options(batch), ""]
    lines += [
        f"# Written by jobrun {__version__}. Each start goes on where the last one ended.",
        "set -u",
        *batch.before,
        f"runs={shlex.quote(str(batch.runs))}",
        'saved() { { wc -l <"$runs/latest/committed.jsonl"; } 2>/dev/null || echo 0; }',
        "before=$(saved)",
        "run='' ended=''",
        "",
        *(_several(batch) if batch.hosts > 1 else _single(batch)),
        "",
        "# A signal interrupts 'wait', which then has to be asked again.",
        "while :; do",
        "  told=''",
        '  wait "$run"',
        "  code=$?",
        '  test -n "$told" || break',
        "done",
    ]
    return "\n".join([*lines, *(_again() if batch.again else ()), 'exit "$code"', ""])


def submit(text: str) -> str:
    """Hand a script to sbatch; the number of the job.

    Raises:
        EnvironmentFaultError: E445, there is no sbatch, or it refuses.
    """
    program = shutil.which("sbatch")
    if program is None:
        raise EnvironmentFaultError.of(
            "E445", "there is no sbatch on this machine",
            "submit from a machine of the cluster, or write the script: jobrun submit … --print",
        )  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command of the batch system
            [program, "--parsable"], input=text, capture_output=True, text=True, timeout=_ASK_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFaultError.of(
            "E445", f"sbatch did not answer: {error}", "see whether Slurm works: sinfo"
        ) from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise EnvironmentFaultError.of(
            "E445", f"sbatch refuses the job: {said}", "see what it takes: sinfo, sbatch --help"
        )
    return done.stdout.strip().partition(";")[0]


def _options(batch: Batch) -> list[str]:
    given = dict(batch.settings)
    own = {
        "job-name": batch.name,
        "output": str(batch.runs.parent / f"slurm-{batch.name}-%j.log"),
        "chdir": str(batch.directory),
        "signal": f"B:USR1@{batch.warn_s}",
        "requeue": "",
        "open-mode": "append",
    }
    if batch.hosts > 1:
        # One of Ray's own processes on each host; what it takes there is the host's.
        own |= {"nodes": str(batch.hosts), "ntasks-per-node": "1", "exclusive": ""}
    return [_option(key, value) for key, value in (own | given).items()]


def _option(key: str, value: str) -> str:
    if not value:
        return f"#SBATCH --{key}"
    return f"#SBATCH --{key}={value}" if _PLAIN.fullmatch(value) else f'#SBATCH --{key}="{value}"'


def _words(batch: Batch) -> str:
    """The command line of the run."""
    words = [*batch.jobrun, *batch.command, "--resume", "auto"]
    if not batch.has_deadline:
        words += ["--set", "deadline=auto"]
    if not any(word.partition("=")[0] == "--grace" for word in batch.command):
        words += ["--grace", f"{max(5, batch.warn_s - _AFTER_SAVING_S)}s"]
    return shlex.join(words)


def _single(batch: Batch) -> list[str]:
    return [
        f"# {batch.warn_s} s before the end Slurm tells this shell alone: the run saves, and ends",
        "# with 75. On scancel it ends likewise, and for good.",
        """trap 'told=yes; test -z "$run" || kill -USR1 "$run" 2>/dev/null' USR1""",
        """trap 'told=yes ended=yes; test -z "$run" || kill -TERM "$run" 2>/dev/null' TERM""",
        f"{_words(batch)} &",
        "run=$!",
    ]


def _several(batch: Batch) -> list[str]:
    stop = shlex.join([*batch.jobrun, "stop", batch.runs.name, "--run-dir", str(batch.runs.parent)])
    return [
        f"# {batch.warn_s} s before the end Slurm tells this shell alone. The run is a process of",
        "# this host, the first one, below srun and Ray: it is asked by its lock.",
        "# shellcheck disable=SC2317",
        f"ask() {{ {stop}; }}",
        "trap 'told=yes; ask' USR1",
        "trap 'told=yes ended=yes; ask' TERM",
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "export RAY_USAGE_STATS_ENABLED=0",
        f"srun --nodes={batch.hosts} --ntasks={batch.hosts} --ntasks-per-node=1 \\",
        f'  ray symmetric-run --address "$head:6379" --min-nodes {batch.hosts} -- \\',
        f"  {_words(batch)} --session ray:auto &",
        "run=$!",
    ]


def _again() -> list[str]:
    return [
        "",
        'if test "$code" -eq 75 && test -z "$ended"; then',
        '  if test "$(saved)" = "$before"; then',
        '    echo "jobrun: nothing was saved in all this time; ask for more: --time" >&2',
        "  else",
        '    scontrol requeue "$SLURM_JOB_ID" || exit "$code"',
        "  fi",
        "fi",
    ]
