"""Run a real Slurm: start and end its daemons, in a directory of their own.

On this machine as its one node, or on several hosts, each with a ``slurmd`` of its own.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from tests.support.host_namespaces import Host

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
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
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# A loaded machine takes three times what a quiet one takes, which is 40 s.
_LONGEST_S = 300


def has_ended(facts: Mapping[str, str]) -> bool:
    """Return whether a job has ended for good."""
    return facts.get("JobState") in {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL"}


class Slurm:
    """The Slurm cluster as a user has it.

    Attributes:
        environment: The variables with which its commands find it.
        front: Where its commands run; None for this process's own host.
    """

    def __init__(self, folder: Path, front: Host | None = None) -> None:
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.front = front

    def words(self, *words: str) -> list[str]:
        """Return the command line that runs a command where Slurm is."""
        return self.front.words(*words) if self.front else [*words]

    def ask(self, *words: str) -> str:
        """Return what one of Slurm's commands prints."""
        done = subprocess.run(
            self.words(*words),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.strip()

    def facts(self, job: str) -> dict[str, str]:
        """Return what ``scontrol`` says of a job."""
        words = self.ask("scontrol", "-o", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def printed_by(self, facts: Mapping[str, str]) -> str:
        """Return what a job has printed."""
        log = Path(facts.get("StdOut", "/nowhere"))
        return log.read_text() if log.exists() else ""

    def wait(
        self, job: str, condition: Callable[[dict[str, str]], bool] = has_ended
    ) -> dict[str, str]:
        """Wait until a job has ended, or is as wanted, and return what ``scontrol`` says of it.

        Slurm holds back a requeued job for two minutes. Here it begins at the next second but one:
        slurmd refuses a credential that is no newer than the second in which it revoked the last.
        """
        end = time.monotonic() + _LONGEST_S
        while not condition(facts := self.facts(job)):
            assert time.monotonic() < end, (facts, self.printed_by(facts))
            if facts.get("Reason") == "BeginTime" and _is_held_back(facts["StartTime"]):
                self.ask("scontrol", "update", f"JobId={job}", "StartTime=now+2")
            time.sleep(0.2)
        return facts


@contextmanager
def slurm(front: Host | None = None, nodes: Sequence[Host] = ()) -> Iterator[Slurm]:
    """Run Slurm's daemons while inside.

    Args:
        front: Where the controller is, and where users submit; None for this machine alone.
        nodes: Where jobs run, with a front.
    """
    # The path of a socket is short, and a test's is not.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _configure(folder, front, nodes)
        cluster = Slurm(folder, front)
        conf = f"{folder}/slurm.conf"
        slurmd = {host.name: host for host in nodes} or {"node1": None}
        for command, host in (
            (
                [
                    "munged",
                    "--foreground",
                    "--force",
                    f"--key-file={folder}/munge.key",
                    f"--socket={folder}/munge.sock",
                    f"--pid-file={folder}/munged.pid",
                    f"--seed-file={folder}/munge.seed",
                ],
                None,
            ),
            (["slurmctld", "-D", "-c", "-f", conf], front),
            *(
                (["slurmd", "-D", "-c", "-f", conf, "-N", name], host)
                for name, host in slurmd.items()
            ),
        ):
            stack.callback(_end, _started(command, folder, cluster, host))
            if command[0] == "munged":
                _wait((folder / "munge.sock").exists, "munged")
        idle = ["idle"] * len(slurmd)
        _wait(lambda: cluster.ask("sinfo", "-hN", "-o", "%T").split() == idle, "a node of Slurm")
        yield cluster


def _is_held_back(begins: str) -> bool:
    """Return whether a pending job begins later than ``wait`` has it begin."""
    soon = datetime.now() + timedelta(seconds=5)  # noqa: DTZ005 - as Slurm writes it
    return begins != "Unknown" and datetime.fromisoformat(begins) > soon


def _configure(folder: Path, front: Host | None, nodes: Sequence[Host]) -> None:
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    # Others of the machine reach the socket, which lies in here.
    folder.chmod(0o755)
    own_host = socket.gethostname().partition(".")[0]
    text = _CONFIGURATION.format(
        control=f"{front.name}({front.address})" if front else f"{own_host}(127.0.0.1)",
        user=getpass.getuser(),
        folder=folder,
        ports=_ports(),
        nodes="\n".join(
            f"NodeName={name} NodeAddr={address} NodeHostname={host} CPUs={count} State=UNKNOWN"
            for name, address, host, count in (
                [(node.name, node.address, node.name, 1) for node in nodes]
                or [("node1", "127.0.0.1", own_host, 2)]
            )
        ),
    )
    (folder / "slurm.conf").write_text(text)


def _ports() -> list[int]:
    """Return two free ports above those that the kernel gives to connections of others."""
    ports: list[int] = []
    while len(ports) < 2:
        port = secrets.choice(range(61000, 65000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            ports.append(port)
    return ports


def _started(
    command: list[str], folder: Path, cluster: Slurm, host: Host | None
) -> subprocess.Popen[bytes]:
    program = shutil.which(command[0]) or f"/usr/sbin/{command[0]}"
    words = [program, *command[1:]]
    with (folder / f"{command[0]}-{command[-1]}.log".replace("/", "_")).open("wb") as log:
        return subprocess.Popen(
            host.words(*words) if host else words,
            env={**os.environ, **cluster.environment},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(100)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(condition: Callable[[], bool], subject: str) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end, f"{subject} does not begin"
        time.sleep(0.1)
