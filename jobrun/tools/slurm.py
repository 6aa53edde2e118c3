"""Render and submit a Slurm batch script that requeues itself until the job is done.

Slurm sends the shell a signal shortly before the time limit, the run saves and ends with 75, and
the script has Slurm requeue the same job, which continues.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from msgspec import Struct

from jobrun.core.child_process import run_and_capture
from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.version import __version__

# Options that the script sets itself: it works only with its own values.
_OWN = {
    "signal": "say how long before the end with --warn",
    "requeue": "it is always there",
    "no-requeue": "leave it out: a job that ended early is put back by its script",
    "open-mode": "it is always append, so that no start overwrites what another one said",
    "array": "name the values of its elements with --array NAME=VALUES",
    "wrap": "the script is what runs",
    "chdir": "change to the directory before you submit",
}
_CONTROL = lazy_pattern(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_KEY = lazy_pattern(r"[a-z][a-z-]*")
_PLAIN = lazy_pattern(r"[\w./:@%+=,\[\]*-]*")
_ASK_S = 60.0
# Seconds for the process and the script to end after saving, before Slurm kills both.
_AFTER_SAVING_S = 20
# slurmctld ends the script of a requeued job at once, or when it can reach the host again.
_UNTIL_ENDED_S = 600
# The ports of the clusters of jobs: above those of Ray's workers, below those that systems give.
_FIRST_PORT = 20000
_PORTS = 12000


class Batch(Struct, frozen=True):
    """The resources to request from Slurm, and the command to run.

    Attributes:
        name: Of the batch job.
        command: The words of ``jobrun run SPEC …``, without what the script adds.
        jobrun: The words that start this program.
        directory: Where it is to run, absolute.
        runs: The directory of the runs of the job; its parent gets the output.
        settings: Further options of sbatch, by their long names; empty text for one without value.
        warn_s: How long before the time limit the run gets the signal, in seconds.
        hosts: How many; with several, a Ray cluster is started on them for the job.
        before: Lines of shell that come before the run.
        again: A run that ended early is put back; not where nothing is saved.
        has_deadline: The spec, or the command, says by itself when all must be saved.
        elements: Those of a job array: the name of each element's job, and the words of its command
            line that are its own; empty for a single job.
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
    elements: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def output(self) -> str:
        """Return the path of what the job prints, with Slurm's words for its numbers."""
        numbers = "%A_%a" if self.elements else "%j"
        return str(self.runs.parent / f"slurm-{self.name}-{numbers}.log")


def setting(text: str) -> tuple[str, str]:
    """Parse a setting for the Slurm script, an option of sbatch: ``KEY=VALUE`` or ``KEY``.

    Raises:
        UsageError: E403, it is no option, or one that is the script's own.
    """
    key, _, value = text.partition("=")
    key = key.removeprefix("--")
    if not _KEY.fullmatch(key):
        raise UsageError.of(
            "E403",
            f"--slurm cannot be '{text}'",
            "give a long option of sbatch, such as --slurm mem=4G or --slurm exclusive",
        )
    if key in _OWN:
        raise UsageError.of("E403", f"--slurm {key} is set by the script", _OWN[key])
    if not value.isprintable() or '"' in value:
        raise UsageError.of(
            "E403",
            f"the value of --slurm {key} has a quote or a line break",
            "a line of #SBATCH cannot hold such a value",
        )
    return key, value


def slurm_time(seconds: float) -> str:
    """Render a duration as a Slurm time limit, rounded up to seconds: ``1-02:00:00``."""
    whole = int(-(-seconds // 1))
    days, seconds_of_day = divmod(whole, 86400)
    clock = f"{seconds_of_day // 3600:02}:{seconds_of_day // 60 % 60:02}:{seconds_of_day % 60:02}"
    return f"{days}-{clock}" if days else clock


def render_script(batch: Batch) -> str:
    """Render the Slurm batch script, for bash.

    Raises:
        UsageError: E403, a path or a word has a line break or another control character.
    """
    lines = ["#!/bin/bash", *_options(batch), ""]
    lines += [
        f"# Written by jobrun {__version__}. Each start continues where the last one ended.",
        "set -u",
        *batch.before,
        *_element(batch),
        'saved() { { wc -l <"$runs/latest/committed.jsonl"; } 2>/dev/null || echo 0; }',
        "before=$(saved)",
        "run='' asked='' sent='' woken='' ended='' code=75",
        "",
        f"# {batch.warn_s} s before the end Slurm signals this shell alone: the run saves, and",
        "# ends with 75. On scancel it ends likewise, and for good. A signal that comes before",
        "# there is a run is kept for it.",
        'pass_on() { test -z "$run" || test -z "$asked" || {',
        """  kill -"$asked" "$run" 2>/dev/null; sent=yes asked=''; }; }""",
        "trap 'asked=USR1 woken=yes; pass_on' USR1",
        "trap 'asked=TERM woken=yes ended=yes; pass_on' TERM",
        "",
        *(_cluster(batch) if batch.hosts > 1 else ()),
        'if test -z "$asked"; then',
        f"  {_words(batch)} &",
        "  run=$!",
        "  pass_on",
        "  # A signal interrupts 'wait', which then has to be asked again.",
        "  while :; do",
        "    woken=''",
        '    wait "$run"',
        "    code=$?",
        '    test -n "$woken" || break',
        "  done",
        "  # Python that has no handlers yet dies of the signal, and has nothing to save.",
        '  test -z "$sent" || case $code in 138|143) code=75 ;; esac',
        "fi",
        *(("end_cluster",) if batch.hosts > 1 else ()),
    ]
    lines += [*(_again() if batch.again else ()), 'exit "$code"', ""]
    for line in filter(_CONTROL.search, lines):
        raise UsageError.of(
            "E403",
            f"a line of the batch script would have a control character: {line.strip()}",
            "rename the directory or the file, or leave the character out of the option",
        )
    return "\n".join(lines)


def submit(text: str) -> str:
    """Submit a batch script by sbatch, and return the number of the Slurm job.

    Raises:
        EnvironmentFaultError: E445, there is no sbatch, or it refuses.
    """
    program = shutil.which("sbatch")
    if program is None:
        raise EnvironmentFaultError.of(
            "E445",
            "sbatch is not installed on this machine",
            "submit from a machine of the cluster, or write the script: jobrun submit … --print",
        )
    try:
        done = run_and_capture([program, "--parsable"], text, limit_s=_ASK_S)
    except OSError as error:
        raise EnvironmentFaultError.of(
            "E445", f"sbatch did not answer: {error}", "check whether Slurm works: sinfo"
        ) from error
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise EnvironmentFaultError.of(
            "E445", f"sbatch rejected the job: {reason}", "check the options: sinfo, sbatch --help"
        )
    return done.stdout.strip().partition(";")[0]


def _options(batch: Batch) -> list[str]:
    settings = dict(batch.settings)
    options = {
        "job-name": batch.name,
        "output": batch.output,
        "chdir": str(batch.directory),
        "signal": f"B:USR1@{batch.warn_s}",
        "requeue": "",
        "open-mode": "append",
    }
    if batch.elements:
        options["array"] = f"0-{len(batch.elements) - 1}"
    if batch.hosts > 1:
        # Ray runs one process of its own on each host, and uses the whole host.
        options |= {"nodes": str(batch.hosts), "ntasks-per-node": "1", "exclusive": ""}
    return [_option(key, value) for key, value in (options | settings).items()]


def _option(key: str, value: str) -> str:
    if not value:
        return f"#SBATCH --{key}"
    return f"#SBATCH --{key}={value}" if _PLAIN.fullmatch(value) else f'#SBATCH --{key}="{value}"'


def _element(batch: Batch) -> list[str]:
    """Render the lines of the Slurm script that choose what this element of a job array runs.

    Each has a job's name of its own, and so a directory of runs: nothing that the others do is
    taken for its own progress.
    """
    if not batch.elements:
        return [f"runs={shlex.quote(str(batch.runs))}", 'this="$SLURM_JOB_ID"']
    # The number of the job alone would be that of the whole array for one of its elements.
    lines = ['this="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"', 'case "$SLURM_ARRAY_TASK_ID" in']
    lines += [
        f"  {number}) job={shlex.quote(job)}; set -- {shlex.join(words)} ;;"
        for number, (job, words) in enumerate(batch.elements)
    ]
    lines += ['  *) echo "jobrun: no such element" >&2; exit 2 ;;', "esac"]
    return [*lines, f'runs={shlex.quote(str(batch.runs.parent))}/"$job"']


def _words(batch: Batch) -> str:
    """Render the command line of the run in the Slurm batch script."""
    words = [*batch.jobrun, *batch.command, "--resume", "auto"]
    if not batch.has_deadline:
        words += ["--set", "deadline=auto"]
    if not any(word.partition("=")[0] == "--grace" for word in batch.command):
        words += ["--grace", f"{max(5, batch.warn_s - _AFTER_SAVING_S)}s"]
    several = ' --session "ray:$ip:$port"' if batch.hosts > 1 else ""
    return shlex.join(words) + (' "$@"' if batch.elements else "") + several


def _cluster(batch: Batch) -> list[str]:
    """Render the lines of a Slurm script that start a Ray cluster on all hosts.

    Its port is derived from the job's number, and its token is made for this start: a token in
    no home directory is needed or in the way.
    """
    ray = shlex.quote(str(Path(batch.jobrun[0]).parent / "ray"))
    return [
        "# A Ray cluster of the job, with a token and a port of the job.",
        'token="$runs/.ray-token-$SLURM_JOB_ID"',
        'mkdir -p "$runs" || exit 7',
        'rm -f "$token"',
        "(umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >\"$token\") || exit 7",
        'export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$token"',
        "unset RAY_AUTH_TOKEN",
        "export RAY_USAGE_STATS_ENABLED=0 RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0",
        f"export JOBRUN_RAY_HOSTS={batch.hosts}",
        "end_cluster() {",
        """  trap '' TERM; kill "$cluster" 2>/dev/null; wait "$cluster" 2>/dev/null""",
        '  rm -f "$token"; }',
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "# Not the address of loopback that many hosts have for their own name.",
        """ip=$(getent ahostsv4 "$head" | awk '$1 !~ /^127[.]/ {print $1; exit}')""",
        "ip=${ip:-$(hostname -I | cut -d ' ' -f 1)}",
        """listens() { (: <"/dev/tcp/$1/$2") 2>/dev/null; }""",
        f"port=$(({_FIRST_PORT} + SLURM_JOB_ID % {_PORTS}))",
        'while listens "$ip" "$port" || listens 127.0.0.1 "$port"; do port=$((port + 1)); done',
        "# shellcheck disable=SC2016",
        f"srun --nodes={batch.hosts} --ntasks={batch.hosts} --ntasks-per-node=1 \\",
        "  --kill-on-bad-exit=1 --export=ALL bash -c '",
        '    if test "$SLURMD_NODENAME" = "$1"; then',
        '      exec "$4" start --block --head --node-ip-address "$2" --port "$3" \\',
        "        --include-dashboard false",
        "    fi",
        '    until (: <"/dev/tcp/$2/$3") 2>/dev/null; do sleep 1; done',
        """    exec "$4" start --block --address "$2:$3"' \\""",
        f'  ray "$head" "$ip" "$port" {ray} &',
        "cluster=$!",
        'until listens "$ip" "$port" || test -n "$asked"; do',
        '  kill -0 "$cluster" 2>/dev/null || {',
        '    rm -f "$token"',
        """    echo "jobrun: Ray did not start on the job's hosts; see above" >&2""",
        "    exit 7; }",
        '  sleep 1 & wait "$!"',
        "done",
        "",
    ]


def _again() -> list[str]:
    return [
        "",
        'if test "$code" -eq 75 && test -z "$ended"; then',
        '  if test "$(saved)" = "$before"; then',
        '    echo "jobrun: nothing was saved within the time limit; raise it: --time" >&2',
        "  else",
        "    # Wait until Slurm ends this script: the next start waits for one that Slurm ends.",
        "    # The report of one that ends by itself may come late, as if the next one had ended.",
        """    trap '' USR1; trap 'exit "$code"' TERM""",
        f'    scontrol requeue "$this" && {{ sleep {_UNTIL_ENDED_S} & wait; }}',
        "  fi",
        "fi",
    ]
