"""The session in which every node is an actor of a Ray cluster, on any of its machines.

It starts none: it attaches to one that is there, or, without an address, to one that Ray starts on
this machine and that ends with the session. What is said to nodes is as with processes.

The address is the one given, else what ``RAY_ADDRESS`` says. Ray's reports of usage stay off, and
its token authentication is left as it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Read when it is imported: no reports, no lines left out, nothing about other versions.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Noted
from jobrun.graph.types import Cluster
from jobrun.session.actor import CALLS, THREADS, NodeActor
from jobrun.session.base import RunContext
from jobrun.session.lost import NodeLostError
from jobrun.session.placing import Machine, Place, place_of
from jobrun.session.processes import ProcessesSession
from jobrun.session.rayhost import RayHost
from jobrun.session.shipping import TooMuchCodeError, digest_of, stage
from jobrun.version import __version__

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_PROBE_S = 10.0
# What a machine, and not the job, says to its processes.
_OF_A_MACHINE = ("RAY_", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                 "HOSTNAME", "SLURM_", "PMI_", "LD_", "PYTHON")  # fmt: skip


class Actors:
    """Makes actors for nodes, and ends them."""

    def __init__(self) -> None:
        for call, threads in CALLS.items():
            ray.method(concurrency_group=threads)(getattr(NodeActor, call))
        # Nobody waits for a processor: nodes are many, and take turns as the system lets them.
        self._made = ray.remote(num_cpus=0, concurrency_groups=THREADS)(NodeActor)

    def take(self, place: Place) -> Any:
        """One at that place, when there is room; it never begins anew by itself."""
        asks = dict(place.asks)
        options: dict[str, Any] = {
            "num_cpus": asks.pop("CPU", 0), "num_gpus": asks.pop("GPU", 0),
            "memory": asks.pop("memory", 0) or None, "resources": asks,
            "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": _threads_of_blas()},
        }  # fmt: skip
        if place.machine:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                place.machine, soft=False
            )
        return self._made.options(**options).remote()

    def leave(self, actor: Any, is_sound: bool) -> None:
        """End one; ``is_sound`` tells whether it has ended what it did in good order."""
        del is_sound
        with contextlib.suppress(RayError):
            ray.kill(actor, no_restart=True)


class RaySession(ProcessesSession):
    """Every node is an actor, which holds its workspace and writes its own files.

    The run's directory has to be on a disk that all machines share, unless files are collected.

    Args:
        address: ``auto``, ``host:port``, or empty; see the module.
        grace_s: As that of ``ThreadsSession``.
        actors: Makes actors otherwise.
    """

    def __init__(
        self, address: str = "", *, grace_s: float = 30.0, actors: Actors | None = None
    ) -> None:
        super().__init__(grace_s=grace_s)
        self._address = address or os.environ.get("RAY_ADDRESS", "") or "local"
        self._actors = actors
        self._hosts: dict[str, RayHost] = {}
        self._begin_with: dict[str, Any] = {}
        self._has_attached = False

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Attach to the cluster, and start an actor per node.

        Raises:
            EnvironmentFaultError: The cluster cannot be used, or has no place for a node.
        """
        digest = self._digest(context)
        if not ray.is_initialized():
            _attach(self._address, Path(context.folder), digest)
            self._has_attached = True
        self._actors = self._actors or Actors()
        self._begin_with = {
            "version": __version__, "environment": _environment(), "paths": list(sys.path),
            "umask": _umask(), "code": (context.folder, digest),
        }  # fmt: skip
        try:
            super().open(cluster, context)
            self._refuse()
        except BaseException:
            self.close()
            raise

    def renew(self) -> tuple[str, ...]:
        """Give nodes that were lost new actors, on any machine that will do.

        Raises:
            EnvironmentFaultError: There is no place, or the node was lost at once.
        """
        try:
            return super().renew()
        except NodeLostError:
            self._refuse(again=True)
            raise

    def close(self) -> None:
        """End all actors, and a cluster that was started for this session. May be called twice."""
        super().close()
        self._hosts.clear()
        if self._has_attached:
            self._has_attached = False
            with _undisturbed():
                ray.shutdown()

    def _start(self, node: str) -> RayHost:
        assert self._actors is not None  # noqa: S101 - since it was opened
        place = place_of(self._nodes[node], _machines())
        actor = self._actors.take(place)
        host = self._hosts[node] = RayHost(actor, self._begin_with, self._actors.leave)
        return host

    def _refuse(self, *, again: bool = False) -> None:
        refusals = [host.refusal(node, again=again) for node, host in self._hosts.items()]
        for one in refusals:
            if one is not None:
                raise one

    def _digest(self, context: RunContext) -> str:
        try:
            return digest_of(Path(context.folder))
        except TooMuchCodeError as error:
            text = f"the modules in '{context.folder}' are not sent to other machines: {error}"
            context.emit(Noted(text))
            return ""


def _attach(address: str, folder: Path, digest: str) -> None:
    """Attach this process to a cluster, which gets the user's modules.

    Raises:
        EnvironmentFaultError: E398, it is not there, or does not let us in.
    """
    own = {"include_dashboard": False} if address == "local" else {}
    _probe(address)
    with tempfile.TemporaryDirectory(prefix="jobrun-code-") as into, _undisturbed():
        modules = [str(stage(folder, Path(into), digest))] if digest else []
        try:
            ray.init(
                address=address, log_to_driver=True, logging_level=logging.ERROR,
                runtime_env={"py_modules": modules} if modules else None, **own,
            )  # fmt: skip
        except (OSError, RuntimeError, ValueError, RayError) as error:
            raise _no_cluster(address, error) from error


def _probe(address: str) -> None:
    """Ray itself would try for minutes, and then end this process."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), _PROBE_S):
            return
    except OSError as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> EnvironmentFaultError:
    said = str(error).strip().partition("\n")[0]
    return EnvironmentFaultError.of(
        "E398",
        f"the Ray cluster at '{address}' cannot be used: {said}",
        "see 'ray status' there, and give its HOST:PORT; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        " here if it asks for a token; --session ray alone starts one on this machine",
    )


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What happens at a signal, and with an error that nobody catches, stays our matter."""
    hook = sys.excepthook
    if threading.current_thread() is not threading.main_thread():
        yield
        sys.excepthook = hook
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        sys.excepthook = hook
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _machines() -> list[Machine]:
    return [
        Machine(
            one["NodeID"],
            frozenset((one["NodeManagerHostname"], one["NodeManagerAddress"], one["NodeName"])),
            one["Resources"],
        )
        for one in ray.nodes()
        if one["Alive"]
    ]


def _environment() -> Mapping[str, str]:
    """What programs and callables find of the master's environment, wherever they run."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_MACHINE)}


def _threads_of_blas() -> dict[str, str]:
    """To be set before numpy is imported."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.endswith(("_NUM_THREADS", "_MAXIMUM_THREADS"))
    }


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
