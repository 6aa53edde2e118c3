"""Run nodes' processes that do not see a directory, as if on another machine.

Each gets a mount namespace, in which an empty file system lies over the directory. That is what a
node of a cluster has that does not share the run's disk. To be run too: a run whose nodes are so.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import JobrunError
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import newest_run
from jobrun.runner.start_or_resume import run_with_policy
from jobrun.spec.load import load_spec

# About 16 MB: several pieces.
SIZE = 2_000_000
SPEC = """\
jobrun: 1
name: far
seed: 5
nodes: {a: {}, t: {count: 2}}
init:
  - {task: make, node: a, steps: ["w = rng.random(2000000)", "k = 0"]}
  - {task: begin, node: t, steps: ["w = rng.random(5)"]}
epoch:
  - {task: step, node: a, steps: ["w = w * 0.5 + rng.random(2000000)", "k = k + 1"]}
  - {task: stir, node: t, steps: ["w = w * 0.5 + rng.random(5)"]}
metrics: {k: k}
stop: [{epochs: 3}]
"""
EACH = "checkpoint: {every: 1ep}\n"
COLLECTED = "checkpoint: {every: 1ep, node_dir: {own}, collect: {to}{more}}\n"


def interpreter(folder: Path, hidden: Path) -> str:
    """Make a program that is Python, but does not see what is in a directory; return its path.

    Args:
        folder: Where it is made.
        hidden: The directory, which is there.
    """
    # Who is not root is that in a namespace of users.
    flags = "-m" if os.geteuid() == 0 else "-rm"
    path = folder / "python-without-a-directory"
    path.write_text(
        "#!/bin/sh\n"
        f"exec unshare {flags} sh -c "
        + shlex.quote(
            f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec {sys.executable} "$@"'
        )
        + ' sh "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def write_spec(
    folder: Path, *, collected: bool, to: str = "master", keep: str = "", size: int = SIZE
) -> Path:
    """Write the spec, whose nodes write into the folder ``own`` if files are collected.

    Args:
        folder: Where it goes.
        collected: Whether they are.
        to: By whom, or where.
        keep: Which epochs stay, as a mapping of the language.
        size: How many numbers node a has.
    """
    path = folder / "far.yaml"
    more = COLLECTED.replace("{own}", str(folder / "own")) if collected else EACH
    more = more.replace("{to}", f"'{to}'").replace("{more}", f", keep: {keep}" if keep else "")
    path.write_text(SPEC.replace(str(SIZE), str(size)) + more)
    return path


def start(folder: Path, resume: str = "auto", *, blind: bool = True, **options: object) -> int:
    """Run or resume; return the exit code.

    Raises:
        JobrunError: It failed.
    """
    loaded = load_spec(str(folder / "far.yaml"))
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    before = sys.executable
    sys.executable = interpreter(folder, runs) if blind else before
    try:
        chosen = RunOptions(run_dir=runs, session="processes", **options)  # type: ignore[arg-type]
        return run_with_policy(loaded, compile_job(loaded).job, chosen, resume=resume).exit_code  # type: ignore[arg-type]
    finally:
        sys.executable = before


def run_of(folder: Path) -> Path:
    """Return the newest run's directory."""
    run = newest_run(folder / "runs", "far")
    assert run is not None
    return run.path


if __name__ == "__main__":
    try:
        sys.exit(start(Path(sys.argv[1])))
    except JobrunError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
