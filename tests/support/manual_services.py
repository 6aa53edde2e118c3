"""Give a page of the manual the other machines and services that it names.

Real ones where there are: Slurm, an S3 server, hosts with Ray, servers for mail and news. Programs
that are no part of this machine are scripts, ``STAND_INS``; names of places elsewhere in the text
of a page are replaced, as ``Services.replaced`` says, which a test prints.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.command import ROOT, environment
from tests.support.host_namespaces import Host, hosts
from tests.support.news_servers import MailServer, NewsServer
from tests.support.s3 import VARIABLES, serving
from tests.support.slurm import slurm

_BIN = Path(sys.executable).parent
_REMOTE_SHELL = ROOT / "tests" / "support" / "remote_shell.py"
# Each does what the page says of the program; what it starts is jobrun, and Ray, as they are.
STAND_INS = {
    # A batch system that starts a script again and again, and has it stop early the first time.
    "qsub": """\
n=$(ls -d .pbs-* 2>/dev/null | wc -l); mkdir ".pbs-$n"
test "$n" -gt 0 || export JOBRUN_MAX_EPOCHS=3
PBS_JOBID=$n.here PBS_WALLTIME=86400 PBS_O_WORKDIR=$PWD exec bash "$1"
""",
    # Runs a command on another machine, with that one's variables and home directory.
    "ssh": f"""\
shift
exec {sys.executable} {_REMOTE_SHELL} run "$OTHER_ADDRESS" "$*"
""",
    # What KubeRay does with a RayJob: a cluster, and the entrypoint until it ends with 0.
    "kubectl": f"""\
test "$1 $2" = "apply -f" && exec {sys.executable} {ROOT}/tests/support/kuberay.py "$3"
""",
}


@dataclass(frozen=True, slots=True)
class Services:
    """What a page has of other machines.

    Attributes:
        variables: The environment of its commands.
        replaced: By what each piece of its text is replaced that names a place elsewhere.
        words: The command line that starts its shell.
        settle: Waits until what a block has started elsewhere has ended, and requires that all went
            well.
        check: Requires, when all blocks have run, that other machines have got what they should.
    """

    variables: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[str] = ("bash",)
    settle: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None

    def replace(self, text: str) -> str:
        """Return a text of the page with its places elsewhere replaced."""
        for piece, other in self.replaced.items():
            text = text.replace(piece, other)
        return text


@contextmanager
def serve(page: str, folder: Path) -> Iterator[Services]:
    """Run what a page needs while inside.

    Args:
        page: Its name.
        folder: Where its blocks are run.
    """
    away = folder.with_name(f"{folder.name}-elsewhere")
    for name in ("bin", "home", "other", "site"):
        (away / name).mkdir(parents=True)
    for name, text in STAND_INS.items():
        program = away / "bin" / name
        program.write_text(f"#!/bin/bash\n{text}")
        program.chmod(0o755)
    shutil.copytree(ROOT / "specs", folder / "specs", ignore=_what_git_ignores)
    variables = {
        "PATH": f"{away / 'bin'}:{_BIN}:{os.environ['PATH']}",
        "HOME": str(away / "home"),
        # What a page installs is there for its own commands alone; it needs nothing new.
        "PIP_TARGET": str(away / "site"),
        "PIP_NO_DEPS": "1",
        # pip reads this one the other way round: without isolation, by what is installed here.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONPATH": str(away / "site"),
    }
    services = Services({**environment(), **variables})
    with ExitStack() as stack:
        prepare = _PREPARED.get(page)
        if prepare is not None:
            services = prepare(services, folder, away, stack)
        yield services
        services.check()


def _what_git_ignores(folder: str, names: Sequence[str]) -> list[str]:
    """Return the names in a folder that are no part of a checkout."""
    has_runs = Path(folder) in {ROOT, ROOT / "specs"}
    return [
        name
        for name in names
        if name.startswith(".") or name == "__pycache__" or (has_runs and name == "runs")
    ]


def _with_checkout(services: Services, folder: Path, _: Path, __: ExitStack) -> Services:
    """Make the folder a checkout of the project, where the tests to run are a few of all."""
    shutil.copytree(ROOT, folder, ignore=_what_git_ignores, dirs_exist_ok=True)
    # A reader's make is told nothing by the one, and by the CI, that runs these tests.
    ours = {"VENV", "PYTEST_ADDOPTS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
    pip = {"PYTHONPATH", "PIP_TARGET", "PIP_NO_DEPS", "PIP_NO_BUILD_ISOLATION"}
    variables = {
        name: value for name, value in services.variables.items() if name not in ours | pip
    }
    few = '"not long and not benchmark" tests/core/text'
    ready = f"VENV={_BIN.parent} --assume-old={_BIN.parent}/.installed-dev"
    return replace(
        services,
        variables=variables,
        replaced={"make test ": f"make test {ready} QUICK='{few}' "},
    )


def _with_store(services: Services, _: Path, __: Path, stack: ExitStack) -> Services:
    """Add an S3 server with a bucket."""
    server = stack.enter_context(serving())
    server.make_bucket("bucket")
    more = {**VARIABLES, "AWS_ENDPOINT_URL": server.url}
    return replace(services, variables={**services.variables, **more})


def _with_hosts(services: Services, folder: Path, away: Path, stack: ExitStack) -> Services:
    """Add two hosts, with Ray on both, and Slurm, which runs jobs on the second."""
    machines = stack.enter_context(hosts(("first", "other"), away))
    cluster = stack.enter_context(slurm(machines["first"], [machines["other"]]))
    # The hosts of the page share a home directory.
    address = _serve_logins(services, away / "home", stack, machines["other"])
    variables = {
        **services.variables,
        **cluster.environment,
        "OTHER_ADDRESS": address,
    }

    def settle() -> None:
        for job in cluster.ask("squeue", "-h", "-r", "-o", "%i").split():
            facts = cluster.wait(job)
            assert facts["JobState"] == "COMPLETED", cluster.printed_by(facts)

    return replace(
        services, variables=variables, words=machines["first"].words("bash"), settle=settle
    )


def _with_login(services: Services, _: Path, away: Path, stack: ExitStack) -> Services:
    """Add a login with another home directory, as on another machine."""
    address = _serve_logins(services, away / "other", stack)
    return replace(services, variables={**services.variables, "OTHER_ADDRESS": address})


def _serve_logins(
    services: Services, home: Path, stack: ExitStack, host: Host | None = None
) -> str:
    """Serve commands on a host; return the address."""
    server = [sys.executable, str(_REMOTE_SHELL), "serve"]
    where = host.address if host else "127.0.0.1"
    variables = [f"{name}={services.variables[name]}" for name in ("PATH", "PYTHONPATH")]
    words = ["env", "-i", "-C", str(home), f"HOME={home}", *variables, *server, f"{where}:0"]
    process = subprocess.Popen(
        host.words(*words) if host else words,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    with process.stdout as output:
        return f"{where}:{int(output.readline())}"


def _with_news(services: Services, _: Path, __: Path, stack: ExitStack) -> Services:
    """Add a server that gets news, and one that gets mail."""
    news = stack.enter_context(NewsServer(reads=bytes.decode))
    mail = stack.enter_context(MailServer())
    replaced = {"https://ntfy.sh/my-topic": news.url, "mail.example.org": mail.address}

    def check() -> None:
        posted, sent = news.got
        assert json.loads(posted)["news"] == "finished"
        assert sent.startswith("page/")
        assert [message["Subject"].split()[-1] for message in mail.got] == ["finished"]

    return replace(services, replaced=replaced, check=check)


def _with_gpu(services: Services, *_: object) -> Services:
    """Put the processor in place of a GPU where there is none."""
    return (
        services
        if Path("/proc/driver/nvidia").exists()
        else replace(services, replaced={"'cuda'": "'cpu'"})
    )


def _with_backup(services: Services, _: Path, away: Path, __: ExitStack) -> Services:
    """Put a directory of the test in place of one of the machine."""
    return replace(services, replaced={"/backup/": f"{away}/backup/"})


_PREPARED: Mapping[str, Callable[[Services, Path, Path, ExitStack], Services]] = {
    "README": _with_checkout,
    "batch": _with_hosts,
    "gpu": _with_gpu,
    "moving-a-run": _with_login,
    "nodes": _with_store,
    "notifications": _with_news,
    "object-stores": _with_store,
    "saving": _with_backup,
}
