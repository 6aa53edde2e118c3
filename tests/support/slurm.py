"""A real Slurm of one machine: its daemons, in a directory of their own, started and ended here."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
KillWait=5
NodeName=node1 NodeAddr=127.0.0.1 NodeHostname={host} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=node1 Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """What a user of the cluster has.

    Attributes:
        environment: The variables with which its commands find it.
    """

    def __init__(self, folder: Path) -> None:
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def ask(self, *words: str) -> str:
        """What one of its commands prints."""
        done = subprocess.run(
            words, env={**os.environ, **self.environment}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """Such as ``RUNNING``; empty when nothing is known of it any more."""
        return self.facts(job).get("JobState", "")

    def facts(self, job: str) -> dict[str, str]:
        """What ``scontrol`` says of a job."""
        words = self.ask("scontrol", "-o", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


@contextmanager
def slurm() -> Iterator[Slurm]:
    """The daemons, while inside."""
    # The path of a socket is short, and a test's is not.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _configure(folder)
        found = Slurm(folder)
        for command in (
            ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key",
             f"--socket={folder}/munge.sock", f"--pid-file={folder}/munged.pid",
             f"--seed-file={folder}/munge.seed"],
            ["slurmctld", "-D", "-c", "-f", f"{folder}/slurm.conf"],
            ["slurmd", "-D", "-c", "-f", f"{folder}/slurm.conf", "-N", "node1"],
        ):  # fmt: skip
            stack.callback(_end, _started(command, folder, found))
            if command[0] == "munged":
                _wait((folder / "munge.sock").exists, "munged")
        _wait(lambda: found.ask("sinfo", "-h", "-o", "%T") == "idle", "the node of Slurm")
        yield found


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    # Others of the machine reach the socket, which lies in here.
    folder.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    text = _CONFIGURATION.format(host=host, user=getpass.getuser(), folder=folder, ports=_ports())
    (folder / "slurm.conf").write_text(text)


def _ports() -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in found:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in found]


def _started(command: list[str], folder: Path, found: Slurm) -> subprocess.Popen[bytes]:
    program = shutil.which(command[0]) or f"/usr/sbin/{command[0]}"
    with (folder / f"{command[0]}.log").open("wb") as log:
        return subprocess.Popen(
            [program, *command[1:]], env={**os.environ, **found.environment}, stdout=log,
            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"{what} does not begin"
        time.sleep(0.1)
