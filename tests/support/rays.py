"""One Ray cluster for all tests of a process, and actors that serve one session after the other.

A cluster takes ten seconds to start and an actor two, which is most of what a test would take.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import ray
from ray._raylet import Config
from ray.cluster_utils import Cluster
from ray.exceptions import RayError

import jobrun.session.ray
from jobrun.session.placing import Place
from jobrun.session.ray import Actors

MEMORY_BYTES = 128 << 20


@contextlib.contextmanager
def cluster(**more: Any) -> Iterator[Any]:
    """A cluster on this machine, with its files out of everybody's way."""
    with tempfile.TemporaryDirectory(prefix="rays-", dir="/tmp") as folder, private_token():
        with quiet():
            context = ray.init(
                address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
                object_store_memory=MEMORY_BYTES, _temp_dir=folder, **more,
            )  # fmt: skip
        try:
            yield context
        finally:
            ray.shutdown()


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """A cluster, and actors that all sessions of this process use one after the other."""
    with cluster():
        kept = KeptActors()
        before = jobrun.session.ray.Actors
        jobrun.session.ray.Actors = lambda: kept  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            jobrun.session.ray.Actors = before  # type: ignore[misc]
            kept.end()


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
        for one in others:
            self.add(one)

    @property
    def address(self) -> str:
        """Where it is attached to."""
        return str(self._cluster.address)

    def add(self, resources: dict[str, float]) -> None:
        """One more machine."""
        self._others.append(self._cluster.add_node(resources=resources, **self._more))

    def lose_last(self) -> None:
        """Kill all processes of the machine that came last."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def end(self) -> None:
        """Kill all."""
        self._cluster.shutdown()


@contextlib.contextmanager
def machines(first: dict[str, float], *others: dict[str, float]) -> Iterator[Machines]:
    """A cluster of several machines, with these resources; no program is attached to it."""
    with private_token():
        with quiet():
            made = Machines(first, *others)
        try:
            yield made
        finally:
            made.end()


@contextlib.contextmanager
def private_token() -> Iterator[None]:
    """No token is read from, or left in, somebody's home."""
    said = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
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
    """What Ray warns of is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class KeptActors(Actors):
    """Actors that have ended what they did in good order are used again."""

    def __init__(self) -> None:
        super().__init__()
        self._free: list[Any] = []
        self._kept: list[Any] = []

    def take(self, place: Place) -> Any:
        """One that is free, if anything will do."""
        if place == Place({}):
            actor = self._free.pop() if self._free else super().take(place)
            self._kept.append(actor)
            return actor
        return super().take(place)

    def leave(self, actor: Any, is_sound: bool) -> None:
        """Keep it, if it can be."""
        if is_sound and any(actor is one for one in self._kept):
            self._free.append(actor)
        else:
            super().leave(actor, is_sound)

    def end(self) -> None:
        """End those that are kept."""
        for actor in self._free:
            with contextlib.suppress(RayError):
                ray.kill(actor, no_restart=True)
