"""How long commands that read take from start to end, as ratios to a bare interpreter.

Run as ``python -m tests.benchmarks.bench_startup``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.benchmarks.ratios import medians, verdict
from tests.support.command import SPECS, environment
from tests.support.many_runs import make_runs

BARE = "python -c pass"
_SPEC = str(SPECS / "digits-kmeans.yaml")
_MANY, _VERY_MANY = 1_000, 10_000
_RUN, _LIBRARIES = "jobrun run, of three epochs", "import numpy, h5py"
# By a part of the name; of a bare interpreter.
_AIMS = (
    ("--version", 1.7), ("validate", 15), ("completion", 10), (f"runs, of {_VERY_MANY:,}", 40),
    ("runs", 12), ("status", 8), ("logs", 8), ("metrics", 8),
)  # fmt: skip
# What a command cannot do without: other people's modules, the spec's models of pydantic, which
# has to make a schema of each of their fields, or a look at every run.
_BUILT = """\
import click, os, yaml
from jobrun.spec.models.job import JobSpec
JobSpec.model_rebuild()
os._exit(0)
"""
_CHECKS = "click, yaml and the models"
_LIBRARIES_OF_RUN = "numpy, click, yaml and the models"
_LOOK = "stat, and json.load, of 10,000"
# A table is a line for each run, which has to be made and written. An entry of the index of
# summaries counts while three files of its run are as they were.
_TABLE = "three stats, json.load, and a line each, of 10,000"
_LIST = "names, and json.load, of 10,000"
# The newest runs are found by names, and alone looked at.
_LIST_SUMMARIES = "names, and json.load of summaries, of 10,000"
# By a part of the name; printed behind a row.
_FLOORS = (
    ("validate", _CHECKS), ("plan", _CHECKS), (f"completion of a run, of {_VERY_MANY:,}", _LIST),
    (f"jobrun runs, of {_VERY_MANY:,}", _TABLE),
    (f"--where, of {_VERY_MANY:,}", _TABLE),
    (f"--limit 20, of {_VERY_MANY:,}", _LIST_SUMMARIES), (f"of {_VERY_MANY:,}", _LOOK),
)  # fmt: skip
# Only the newest run, whose job's directory says which it is, and nothing of the others.
_WITHOUT_FLOOR = ("status,", "status NAME", "logs NAME", "metrics NAME")
# Called with a directory of runs, the name of an index, and the files of a run to look at.
_LOOK_AT_ALL = """\
import click, json, os, sys
for job in os.scandir(sys.argv[1]):
    if job.is_dir() and not job.name.startswith("."):
        for run in os.scandir(job.path):
            for name in sys.argv[3:]:
                os.stat(run.path + name)
loaded = json.load(open(sys.argv[1] + "/" + sys.argv[2]))
"""
# The same, with the columns that the table of these runs has, and nothing to find out of them.
_PRINT_ALL = f"""\
{_LOOK_AT_ALL}\
from datetime import datetime, timezone
now, lines = datetime.now(timezone.utc), []
for path, entry in loaded["runs"].items():
    params, metrics = entry[14], entry[15]
    age = now - datetime.fromisoformat(entry[2])
    lines.append(
        f"{{path:32}}  {{params.get('rate', 0):6.5g}}  {{params.get('depth', 0):5}}  "
        f"{{metrics.get('loss', 0):10.5g}}  {{metrics.get('accuracy', 0):8.5g}}  "
        f"{{entry[4]:8}}  {{entry[5]:5}}  {{age.days:3}} d  {{entry[7]}}"
    )
print("\\n".join(lines))
"""
_THREE = ("/run.json", "", "/metrics.jsonl")
_PACKAGES = 4
_SHORT = """\
jobrun: 1
name: short
init: [{task: start, steps: [x = 1.0]}]
epoch: [{task: step, steps: [x += 1]}]
stop: [{epochs: 3}]
"""


def timed(words: list[str], **variables: str) -> Callable[[], object]:
    """A call that starts an interpreter with these words, and waits for its end."""
    # Installed packages have bytecode; without it, each start compiles this one again.
    variables = {"PYTHONDONTWRITEBYTECODE": "", **variables}
    return partial(
        subprocess.run,
        [sys.executable, *words],
        env=environment(**variables),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )


def command(*words: str, **variables: str) -> Callable[[], object]:
    """The same, of a command line of jobrun."""
    return timed(["-m", "jobrun", *words], **variables)


def completion(*words: str) -> Callable[[], object]:
    """What a shell asks when a person presses tab behind these words, the last one unfinished."""
    line = " ".join(["jobrun", *words])
    return command(_JOBRUN_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))


def cases(short: str, few: str, many: str) -> dict[str, Callable[[], object]]:
    """What is measured, by its name.

    Args:
        short: The spec of a job of three epochs.
        few: A directory of 1,000 runs, with one that really ran.
        many: The same, of 10,000.
    """
    commands = {
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
        commands |= {
            f"jobrun runs, of {count:,}": command("runs", "--run-dir", folder),
            f"jobrun runs --where, of {count:,}": command(
                "runs", "--where", "loss<0.01", "--sort", "-rate", "--run-dir", folder
            ),
            f"jobrun runs --limit 20, of {count:,}": command(
                "runs", "--limit", "20", "--run-dir", folder
            ),
            f"jobrun status, of {count:,}": command("status", "--run-dir", folder),
            f"jobrun status NAME, of {count:,}": command(
                "status", "two-nodes", "--run-dir", folder
            ),
            f"jobrun logs NAME, of {count:,}": command("logs", "two-nodes", "--run-dir", folder),
            f"jobrun metrics NAME, of {count:,}": command(
                "metrics", "two-nodes", "--run-dir", folder
            ),
            f"completion of a run, of {count:,}": completion("status", "--run-dir", folder, ""),
        }
    return commands | {
        _RUN: command("run", short, "--run-dir", f"{few}-short", "--resume", "never", "-q"),
        _LIBRARIES: timed(["-c", "import numpy, h5py"]),
        _CHECKS: timed(["-c", _BUILT]),
        _LIBRARIES_OF_RUN: timed(["-c", f"import numpy\n{_BUILT}"]),
        # Behind the commands, which write the index that it reads.
        _LOOK: timed(["-c", _LOOK_AT_ALL, many, ".index.json", "/run.json"]),
        _TABLE: timed(["-c", _PRINT_ALL, many, ".summaries.json", *_THREE]),
        _LIST: timed(["-c", _LOOK_AT_ALL, many, ".index.json"]),
        _LIST_SUMMARIES: timed(["-c", _LOOK_AT_ALL, many, ".summaries.json"]),
    }


def import_times(*words: str) -> dict[str, tuple[float, int]]:
    """Milliseconds and number of the modules that a command line imports, by their package.

    Modules of the standard library are under its name here, those of jobrun under its own.
    """
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jobrun", *words], check=True, text=True,
        env=environment(PYTHONDONTWRITEBYTECODE="", JOBRUN_UNGUARDED="1"), capture_output=True,
    )  # fmt: skip
    packages: dict[str, tuple[float, int]] = {}
    for line in done.stderr.splitlines():
        own_us, _, name = line.removeprefix("import time:").replace("|", " ").split(maxsplit=2)
        if own_us.isdecimal():
            package = name.strip().partition(".")[0]
            package = "standard library" if package in sys.stdlib_module_names else package
            took_ms, count = packages.get(package, (0.0, 0))
            packages[package] = (took_ms + int(own_us) / 1000, count + 1)
    return dict(sorted(packages.items(), key=lambda item: -item[1][0]))


def show_imports(lines: Mapping[str, tuple[str, ...]]) -> None:
    """Print what command lines import: their own modules, and the packages that take longest."""
    print("\nimports: milliseconds (modules)")
    for name, words in lines.items():
        packages = import_times(*words)
        own_ms, own_count = packages.pop("jobrun")
        foreign_ms, foreign_count = (sum(column) for column in zip(*packages.values(), strict=True))
        parts = [f"{package} {took:.0f} ({count})" for package, (took, count) in packages.items()]
        print(f"  {name:16} own {own_ms:4.0f} ({own_count})   ", end="")
        print(f"foreign {foreign_ms:4.0f} ({foreign_count}): ", end="")
        print(", ".join(parts[:_PACKAGES]))


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory(prefix="jobrun-bench-") as text:
        folders = []
        for count in (_MANY, _VERY_MANY):
            folder = Path(text, str(count))
            make_runs(folder, count)
            command("run", str(SPECS / "two-nodes.yaml"), "--run-dir", str(folder), "-q")()
            folders.append(str(folder))
        short = Path(text, "short.yaml")
        short.write_text(_SHORT)
        times = medians(cases(str(short), *folders), rounds=5)
        run_dir = ("--run-dir", folders[0])
        show_imports(
            {
                "jobrun run": ("run", str(short), *run_dir, "--resume", "never", "-q"),
                "jobrun validate": ("validate", str(short)),
                **{
                    f"jobrun {subcommand}": (subcommand, *run_dir)
                    for subcommand in ("runs", "status", "logs", "metrics")
                },
            }
        )
    print("\nstart to end")
    for name, seconds in times.items():
        ratio = seconds / times[BARE]
        aim = verdict(ratio, next((most for part, most in _AIMS if part in name), None))
        print(f"  {name:34} {seconds * 1000:7.0f} ms  {ratio:6.1f} x{aim}{_floor(name, times)}")
    ratio = times[_RUN] / times[_LIBRARIES]
    # The job runs in a second interpreter, with its hash seed.
    least = (times[_LIBRARIES_OF_RUN] + times[BARE]) / times[_LIBRARIES]
    aim = f"{verdict(ratio, 2.5)}   floor {least:.1f} x"
    print(f"  {_RUN} against {_LIBRARIES}: {ratio:.1f} x{aim}")


def _floor(name: str, times: Mapping[str, float]) -> str:
    """Return what is printed of the least that a command line could take, as a ratio."""
    if any(part in name for part in _WITHOUT_FLOOR) or name in dict(_FLOORS).values():
        return ""
    floor = next((floor_ for part, floor_ in _FLOORS if part in name), None)
    return f"   floor {times[floor] / times[BARE]:.1f} x" if floor else ""


if __name__ == "__main__":
    main()
