"""Run the same k-means in several tools, kill it with -9 half way, and say the same line again.

Each tool has an environment of its own below ENVIRONMENTS, made once with what is printed by
``--install``; then ``python -m tests.benchmarks.peer_jobs.measure ENVIRONMENTS [NAME…]`` prints the
rows of the table in the README. Not a test: it needs several GB of other people's packages.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KILL_AFTER = 8


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool, what a user types, and what he may have to type after a kill.

    Attributes:
        package: What is installed; nothing for numpy alone.
        files: What the user writes.
        command: Starts the job.
        mends: Said after the kill where that fails, in this order.
        prepare: Said once, before anything else.
        again: Said after the kill, where it is not ``command``.
        also: Installed after it, where pip's own choice does not work.
    """

    package: str
    files: tuple[str, ...]
    command: str
    mends: tuple[str, ...] = ()
    prepare: str = ""
    again: str = ""
    also: str = ""


PEERS: dict[str, Peer] = {
    "plain": Peer("", ("job.py",), "python job.py"),
    "plain_saving": Peer("", ("job.py",), "python job.py"),
    "snakemake": Peer(
        "snakemake", ("Snakefile", "epoch.py"), "snakemake -c1 -q",
        ("snakemake --unlock", "snakemake -c1 -q --rerun-incomplete"),
    ),
    "dvc": Peer(
        "dvc", ("dvc.yaml", "job.py"), "dvc repro",
        ("rm -f .dvc/tmp/rwlock .dvc/tmp/lock", "dvc repro"),
        prepare="git init -q && dvc init -q",
    ),
    "metaflow": Peer(
        "metaflow", ("job.py",), "python job.py --quiet run", again="python job.py --quiet resume"
    ),
    # The newest fastapi, which it allows and pip takes, has no 'min_items' any more.
    "prefect": Peer("prefect", ("job.py",), "python job.py", also="fastapi<0.116"),
    "luigi": Peer(
        "luigi", ("job.py",), "luigi --module job Result --local-scheduler --log-level ERROR"
    ),
    "jobrun": Peer("jobrun", ("kmeans.yaml",), "jobrun run kmeans.yaml --resume auto"),
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Print the commands that install the tools, or the measured rows."""
    root = Path(arguments[0]).absolute()
    names = arguments[1:]
    if names == ["--install"]:
        for name, peer in PEERS.items():
            package = str(ROOT) if peer.package == "jobrun" else peer.package
            sys.stdout.write(
                f"python3 -m venv {root}/v-{name} && "
                f"{root}/v-{name}/bin/pip install numpy {package}\n"
            )
            if peer.also:
                sys.stdout.write(f"{root}/v-{name}/bin/pip install '{peer.also}'\n")
        return
    for name in names or PEERS:
        sys.stdout.write(_row(name, PEERS[name], root / f"v-{name}") + "\n")
        sys.stdout.flush()


def _row(name: str, peer: Peer, venv: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = (
            _laid_out(name, peer, Path(folder, subfolder), venv) for subfolder in ("a", "b")
        )
        began = time.monotonic()
        code = _said(peer.command, whole, venv)
        took_s = time.monotonic() - began
        if code:
            return f"| {name} | fails with {code} |"
        wanted = np.load(whole / "result.npy")
        _kill(peer.command, broken, venv)
        typed = [peer.again or peer.command]
        code = _said(typed[0], broken, venv)
        if code:
            typed += peer.mends
            for mend in peer.mends:
                code = _said(mend, broken, venv)
        result = broken / "result.npy"
        same = result.exists() and np.array_equal(np.load(result), wanted)
        lines = sum(_lines(broken / file) for file in peer.files)
        steps, again = _steps(whole), _steps(broken) - _steps(whole)
        return (
            f"| {name} {_version(peer.package, venv)} | {lines} | {steps} epochs in {took_s:.1f} s"
            f" | {again} epochs again | {'same bits' if same else 'NOT the same'}"
            f" | exit {code}: `{'; '.join(typed)}` |"
        )


def _laid_out(name: str, peer: Peer, folder: Path, venv: Path) -> Path:
    shutil.copytree(HERE / name, folder)
    shutil.copy(HERE / "common.py", folder)
    if peer.prepare:
        _said(peer.prepare, folder, venv)
    return folder


def _environment(folder: Path, venv: Path) -> Mapping[str, str]:
    return {
        "PATH": f"{venv}/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "USER": "somebody",
        "LANG": "C.UTF-8",
        "DIGITS": str(ROOT / "specs" / "data" / "digits.npz"),
        "STEPS": str(folder / "steps.log"),
        "PYTHONPATH": str(folder),
    }


def _said(command: str, folder: Path, venv: Path) -> int:
    with (folder / "said.log").open("a") as log:
        log.write(f"$ {command}\n")
        log.flush()
        return subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=_environment(folder, venv),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=400,
        ).returncode


def _kill(command: str, folder: Path, venv: Path) -> None:
    """Start it, and kill all of it with -9 in the middle of a step."""
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=_environment(folder, venv),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    while _steps(folder) < KILL_AFTER and process.poll() is None:
        time.sleep(0.02)
    for number in _below(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def _below(pid: int) -> list[int]:
    """A process and all that descend from it, the eldest first."""
    pids = [pid]
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            pids += _below(int(child))
    return pids


def _steps(folder: Path) -> int:
    path = folder / "steps.log"
    return path.read_text().count("\n") if path.exists() else 0


def _lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def _version(package: str, venv: Path) -> str:
    if not package:
        return ""
    line = f"from importlib.metadata import version; print(version('{package}'))"
    done = subprocess.run(
        [venv / "bin" / "python", "-c", line], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
