"""Start one Ray cluster for all tests of a process, with actors that sessions reuse.

A cluster takes ten seconds to start and an actor two, which is most of what a test would take.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray
from ray._raylet import Config
from ray.cluster_utils import Cluster
from ray.exceptions import RayError

import jobrun.session.ray.session
from jobrun.session.ray.session import ActorFactory, ResourceRequest

MEMORY_BYTES = 128 << 20


@contextlib.contextmanager
def cluster(**more: Any) -> Iterator[Any]:
    """Start a cluster on this machine, with its files in a folder of its own.

    Of a process to which one is named (``RAYS_ADDRESS``) it is that one.
    """
    if address := os.environ.get("RAYS_ADDRESS"):
        with private_token(), quiet():
            context = ray.init(address=address, log_to_driver=False)
            try:
                yield context
            finally:
                ray.shutdown()
        return
    with tempfile.TemporaryDirectory(prefix="rays-", dir="/tmp") as folder, private_token():
        with quiet():
            context = ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=MEMORY_BYTES,
                _temp_dir=folder,
                **more,
            )
        try:
            yield context
        finally:
            ray.shutdown()


@contextlib.contextmanager
def shared() -> Iterator[Any]:
    """Return a cluster, and actors that all sessions of this process reuse."""
    with cluster() as context:
        actors = KeptActors()
        before = jobrun.session.ray.session.ActorFactory
        jobrun.session.ray.session.ActorFactory = lambda: actors  # type: ignore[assignment,misc]
        try:
            yield context
        finally:
            jobrun.session.ray.session.ActorFactory = before  # type: ignore[misc]
            actors.end()


class Machines:
    """Raylets, each of which is a machine to the cluster."""

    def __init__(self, first: dict[str, float], *others: dict[str, float]) -> None:
        more = {"num_cpus": 1, "object_store_memory": MEMORY_BYTES}
        self._more = more
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={**more, "resources": first, "include_dashboard": False},
        )
        self._others = []
        self._blind: list[subprocess.Popen[str]] = []
        for resources in others:
            self.add(resources)

    @property
    def address(self) -> str:
        """Return the address that programs connect to."""
        return str(self._cluster.address)

    def add(self, resources: dict[str, float]) -> None:
        """Add a machine."""
        self._others.append(self._cluster.add_node(resources=resources, **self._more))

    def add_blind(self, resources: dict[str, float], hidden: Path) -> None:
        """Add a machine whose processes do not see what is in a directory."""
        # Who is not root is that in a namespace of users.
        flags = "-m" if os.geteuid() == 0 else "-rm"
        ray_start = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--address", self.address,
            "--resources", json.dumps(resources), "--num-cpus", "1", "--object-store-memory",
            str(MEMORY_BYTES), "--disable-usage-stats", "--block",
        ]  # fmt: skip
        hide = f"mount -t tmpfs none {shlex.quote(str(hidden))} && exec {shlex.join(ray_start)}"
        begun = subprocess.Popen(
            ["unshare", flags, "sh", "-c", hide], start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._blind.append(begun)
        printed = []
        while "Ray runtime started" not in (line := begun.stdout.readline()):
            printed.append(line)
            assert line, "".join(printed)

    def lose_last(self) -> None:
        """Kill all processes of the machine that came last."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def end(self) -> None:
        """Kill all machines."""
        for process in self._blind:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
        self._cluster.shutdown()


@contextlib.contextmanager
def machines(first: dict[str, float], *others: dict[str, float]) -> Iterator[Machines]:
    """Start a cluster of several machines, with these resources; no program is connected."""
    with private_token():
        with quiet():
            started = Machines(first, *others)
        try:
            yield started
        finally:
            started.end()


@contextlib.contextmanager
def private_token() -> Iterator[None]:
    """Keep tokens from being read from, or left in, a home directory."""
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    # It has been read when Ray was imported.
    Config.initialize("")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        Config.initialize("")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore what Ray warns of, which is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class KeptActors(ActorFactory):
    """Reuses actors that have ended what they did in good order."""

    def __init__(self) -> None:
        super().__init__()
        self._free: list[Any] = []
        self._kept: list[Any] = []

    def create(self, request: ResourceRequest) -> Any:
        """Return a free actor, if any will do, else create one."""
        if request == ResourceRequest({}):
            actor = self._free.pop() if self._free else super().create(request)
            self._kept.append(actor)
            return actor
        return super().create(request)

    def dispose(self, actor: Any, is_sound: bool) -> None:
        """Keep the actor for reuse, if possible."""
        if is_sound and any(actor is kept_actor for kept_actor in self._kept):
            self._free.append(actor)
        else:
            super().dispose(actor, is_sound)

    def end(self) -> None:
        """Kill the kept actors."""
        for actor in self._free:
            with contextlib.suppress(RayError):
                ray.kill(actor, no_restart=True)
