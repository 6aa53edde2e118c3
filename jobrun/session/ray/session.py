"""Implement the ``ray`` session: every node is an actor on a Ray cluster.

It connects to a running cluster, or, without an address, to one that Ray starts on this machine and
that ends with the session. The messages are those of the processes session.

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

from jobrun.core.errors import EnvironmentFaultError

# Ray reads them on import: no usage reports, no deduplicated lines, no version warnings.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobrun.core.captured_output import STREAMS
from jobrun.core.events import Noted
from jobrun.core.hash_seed import VARIABLE
from jobrun.core.stop_signals import NAMED
from jobrun.core.waiting import wait_until
from jobrun.graph.types import Cluster
from jobrun.session.base import NodeLostError, RunContext
from jobrun.session.processes.session import ProcessesSession
from jobrun.session.ray.actor import CALLS, THREADS, NodeActor, RayWorker
from jobrun.session.ray.code_upload import TooMuchCodeError, digest_modules, stage_modules
from jobrun.session.ray.placement import Machine, ResourceRequest, resource_request
from jobrun.version import __version__

_PROBE_S = 10.0
# A host joins within seconds; a busy file system may take a minute to give it Python.
_JOIN_S = 180.0
_JOIN_POLL_S = 0.2
# Prefixes of variables that belong to a machine, not to the job.
_MACHINE_VARIABLES = (
    "RAY_",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HOSTNAME",
    "SLURM_",
    "PMI_",
    "LD_",
    "PYTHON",
)


class ActorFactory:
    """Creates Ray actors for nodes, and disposes of them."""

    def __init__(self) -> None:
        for call, threads in CALLS.items():
            ray.method(concurrency_group=threads)(getattr(NodeActor, call))
        # num_cpus=0: nodes share the CPUs; Ray must not queue them for one.
        self._made = ray.remote(num_cpus=0, concurrency_groups=THREADS)(NodeActor)

    def create(self, request: ResourceRequest) -> Any:
        """Create an actor for a node of the ``ray`` session; Ray itself never restarts it."""
        asks = dict(request.asks)
        options: dict[str, Any] = {
            "num_cpus": asks.pop("CPU", 0),
            "num_gpus": asks.pop("GPU", 0),
            "memory": asks.pop("memory", 0) or None,
            "resources": asks,
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": _set_at_start()},
        }
        if request.machine:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                request.machine, soft=False
            )
        return self._made.options(**options).remote()

    def dispose(self, actor: Any, is_sound: bool) -> None:
        """Kill a Ray actor of the session, whether it finished in good order or not."""
        del is_sound
        with contextlib.suppress(RayError):
            ray.kill(actor, no_restart=True)


class RaySession(ProcessesSession):
    """Runs every node in an actor, which holds its workspace and writes its own files.

    The run's directory has to be on a disk that all machines share, unless files are collected.

    Args:
        address: ``auto``, ``host:port``, or empty; see the module.
        grace_s: As that of ``ThreadsSession``.
        actors: Makes actors otherwise.
    """

    def __init__(
        self, address: str = "", *, grace_s: float = 30.0, actors: ActorFactory | None = None
    ) -> None:
        super().__init__(grace_s=grace_s)
        self._address = address or os.environ.get("RAY_ADDRESS", "") or "local"
        self._actors = actors
        self._ray_workers: dict[str, RayWorker] = {}
        self._start_facts: dict[str, Any] = {}
        self._has_attached = False

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Connect the session to the Ray cluster, and start an actor per node.

        Raises:
            EnvironmentFaultError: The cluster cannot be used, or has no place for a node.
        """
        digest = self._digest_modules(context)
        if not ray.is_initialized():
            _connect(self._address, Path(context.folder), digest)
            self._has_attached = True
        self._actors = self._actors or ActorFactory()
        self._start_facts = {
            "version": __version__,
            "environment": _environment(),
            "paths": list(sys.path),
            "shows": STREAMS.is_shown,
            "umask": _umask(),
            "code": (context.folder, digest),
        }
        try:
            super().open(cluster, context)
            self._raise_refusals()
        except BaseException:
            self.close()
            raise

    def renew(self) -> tuple[str, ...]:
        """Replace the session's actors of lost nodes, on any suitable machine of the cluster.

        Raises:
            EnvironmentFaultError: There is no place, or the node was lost at once.
        """
        try:
            return super().renew()
        except NodeLostError:
            self._raise_refusals(again=True)
            raise

    def close(self) -> None:
        """Shut down all actors, and the Ray cluster if the session started it; repeatable."""
        super().close()
        self._ray_workers.clear()
        if self._has_attached:
            self._has_attached = False
            with _preserved_handlers():
                ray.shutdown()

    def _start(self, node: str) -> RayWorker:
        assert self._actors is not None  # noqa: S101 - since it was opened
        request = resource_request(self._nodes[node], _list_machines())
        actor = self._actors.create(request)
        host = self._ray_workers[node] = RayWorker(actor, self._start_facts, self._actors.dispose)
        return host

    def _raise_refusals(self, *, again: bool = False) -> None:
        refusals = [host.refusal(node, again=again) for node, host in self._ray_workers.items()]
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    def _digest_modules(self, context: RunContext) -> str:
        try:
            return digest_modules(Path(context.folder))
        except TooMuchCodeError as error:
            text = f"the modules in '{context.folder}' are not sent to other machines: {error}"
            context.emit(Noted(text))
            return ""


def _connect(address: str, folder: Path, digest: str) -> None:
    """Connect the ``ray`` session to its cluster, to which the user's modules are uploaded.

    Raises:
        EnvironmentFaultError: E398, it is not there, or does not let us in.
    """
    local_options = {"include_dashboard": False} if address == "local" else {}
    _require_reachable(address)
    with tempfile.TemporaryDirectory(prefix="jobrun-code-") as into, _preserved_handlers():
        modules = [str(stage_modules(folder, Path(into), digest))] if digest else []
        try:
            ray.init(
                address=address,
                log_to_driver=True,
                logging_level=logging.ERROR,
                runtime_env={"py_modules": modules} if modules else None,
                **local_options,
            )
        except (OSError, RuntimeError, ValueError, RayError) as error:
            raise _cluster_error(address, error) from error
    _wait_for_hosts(address, int(os.environ.get("JOBRUN_RAY_HOSTS") or 0))


def _wait_for_hosts(address: str, count: int) -> None:
    """Wait until enough hosts for the ``ray`` session have joined its cluster.

    Nodes of the job that are placed before would all be on the first ones.

    Raises:
        EnvironmentFaultError: E480, some of them did not join.
    """
    if not wait_until(lambda: len(_list_machines()) >= count, _JOIN_S, _JOIN_POLL_S):
        raise EnvironmentFaultError.of(
            "E480",
            f"only {len(_list_machines())} of {count} hosts have joined the Ray cluster at "
            f"'{address}' after {_JOIN_S:g} s",
            "see what 'ray start' says in the output of the batch job; each host must reach "
            "that address",
        )


def _require_reachable(address: str) -> None:
    """Refuse a Ray cluster's address that cannot be reached, before Ray retries for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), _PROBE_S):
            return
    except OSError as error:
        raise _cluster_error(address, error) from error


def _cluster_error(address: str, error: Exception) -> EnvironmentFaultError:
    message = str(error).strip().partition("\n")[0]
    return EnvironmentFaultError.of(
        "E398",
        f"the Ray cluster at '{address}' cannot be used: {message}",
        "see 'ray status' there, and give its HOST:PORT; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        " here if it asks for a token; --session ray alone starts one on this machine",
    )


@contextlib.contextmanager
def _preserved_handlers() -> Iterator[None]:
    """Restore, after a ``with`` block, signal handlers and ``sys.excepthook`` that Ray replaces."""
    hook = sys.excepthook
    if threading.current_thread() is not threading.main_thread():
        yield
        sys.excepthook = hook
        return
    handlers = {number: signal.getsignal(number) for number in NAMED}
    try:
        yield
    finally:
        sys.excepthook = hook
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _list_machines() -> list[Machine]:
    return [
        Machine(
            node["NodeID"],
            frozenset((node["NodeManagerHostname"], node["NodeManagerAddress"], node["NodeName"])),
            node["Resources"],
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def _environment() -> Mapping[str, str]:
    """Return the environment variables that every node of the Ray session gets."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(_MACHINE_VARIABLES)
    }


def _set_at_start() -> dict[str, str]:
    """Return the environment variables that the ``ray`` session sets in each actor at its start."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.endswith(("_NUM_THREADS", "_MAXIMUM_THREADS")) or name == VARIABLE
    }


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
