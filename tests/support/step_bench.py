"""Run blocks of steps without a session, for tests of what a step means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobrun.core.events import Event
from jobrun.graph.steps import Step
from jobrun.graph.types import Node, Scope
from jobrun.runtime.codegen.compiler import Block, compile_block
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.codegen.numpy_warnings import NumpyWarnings
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.frame import Blobs, Frame, GroupRun
from jobrun.runtime.step_errors import run_block
from jobrun.runtime.steps.dispatch import Actions
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.testing.graphs import steps


class Bench:
    """One task's view, with blobs that can be looked at between blocks.

    Args:
        private: Names kept in variables; all others are read and stored one by one.
    """

    def __init__(self, folder: str = ".", **blobs: Any) -> None:
        self.events: list[Event] = []
        self.notices = NumpyWarnings(self.events.append)
        self.crew = ThreadPool(self.notices.errstate)
        self.reaper = ChildReaper()
        self.run = GroupRun(
            "epoch",
            3,
            7,
            f"{folder}/run",
            folder,
            self.events.append,
            {},
            self.crew.start,
            self.reaper,
        )
        self.blobs = Blobs(blobs)
        self.node = Blobs()
        self.frame = Frame(
            self.run, Node("local"), "t", (self.blobs, self.blobs, Blobs(), self.node)
        )
        self.frame.place = "e/t"

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self.crew.close()
        self.reaper.close()

    def block(
        self,
        *parts: str | Step,
        shared: str | None = "",
        scopes: Mapping[str, Scope] | None = None,
        by_record: bool = False,
    ) -> Block:
        """Compile some steps; ``shared=None`` makes all names shared ones."""
        made = steps(*parts)
        found = collect_usage(made)
        kept = frozenset(found.used if shared is None else shared.split())
        names = BlockNames(
            dict(scopes or {}), kept, frozenset(found.used), frozenset(found.changed)
        )
        return compile_block(made, "e/t", names, Actions(names), by_record=by_record)

    def do(self, *parts: str | Step, **more: Any) -> Blobs:
        """Run steps and return the task's blobs."""
        run_block(self.block(*parts, **more), self.frame)
        return self.blobs
