"""How long commands that read take from start to end, as ratios to a bare interpreter.

Run as ``python -m tests.benchmarks.bench_startup``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.benchmarks.ratios import medians
from tests.support.command import SPECS, environment
from tests.support.manyruns import make_runs

BARE = "python -c pass"
_SPEC = str(SPECS / "digits-kmeans.yaml")
_MANY, _VERY_MANY = 1_000, 10_000


def timed(words: list[str], **variables: str) -> Callable[[], object]:
    """A call that starts an interpreter with these words, and waits for its end."""
    return partial(
        subprocess.run, [sys.executable, *words], env=environment(**variables), check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def command(*words: str, **variables: str) -> Callable[[], object]:
    """The same, of a command line of jobrun."""
    return timed(["-m", "jobrun", *words], **variables)


def completion(*words: str) -> Callable[[], object]:
    """What a shell asks when a person presses tab behind these words, the last one unfinished."""
    line = " ".join(["jobrun", *words])
    return command(_JOBRUN_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))


def cases(few: str, many: str) -> dict[str, Callable[[], object]]:
    """What is measured, by its name.

    Args:
        few: A directory of 1,000 runs, with one that really ran.
        many: The same, of 10,000.
    """
    found = {
        BARE: timed(["-c", "pass"]),
        "jobrun --version": command("--version"),
        "jobrun --help": command("--help"),
        "jobrun explain E042": command("explain", "E042"),
        "jobrun validate": command("validate", _SPEC),
        "jobrun plan": command("plan", _SPEC),
        "completion of a command": completion("sta"),
        "completion of an option": completion("run", _SPEC, "--set", "par"),
    }
    for count, folder in ((_MANY, few), (_VERY_MANY, many)):
        found |= {
            f"jobrun runs, of {count:,}": command("runs", "--run-dir", folder),
            f"jobrun runs --limit 20, of {count:,}": command(
                "runs", "--limit", "20", "--run-dir", folder
            ),
            f"jobrun status, of {count:,}": command("status", "--run-dir", folder),
            f"jobrun status NAME, of {count:,}": command(
                "status", "two-nodes", "--run-dir", folder
            ),
            f"completion of a run, of {count:,}": completion("status", "--run-dir", folder, ""),
        }
    return found | {
        "import numpy": timed(["-c", "import numpy"]),
        "import pydantic, click": timed(["-c", "from pydantic import BaseModel; import click"]),
    }


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="jobrun-bench-") as text:
        folders = []
        for count in (_MANY, _VERY_MANY):
            folder = Path(text, str(count))
            make_runs(folder, count)
            command("run", str(SPECS / "two-nodes.yaml"), "--run-dir", str(folder), "-q")()
            folders.append(str(folder))
        found = medians(cases(*folders), rounds=5)
    print("\nstart to end   (aim: no command that reads waits more than a moment)")
    for name, seconds in found.items():
        print(f"  {name:34} {seconds * 1000:7.0f} ms  {seconds / found[BARE]:6.1f} x")


if __name__ == "__main__":
    main()
