"""Run blocks of steps without a session, for tests of what a step means."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from jobrun.core.events import Event
from jobrun.graph.effects import NOWHERE
from jobrun.graph.steps import Step
from jobrun.graph.types import Node, Scope
from jobrun.runtime.codegen.compiler import Block, compile_block
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.codegen.record_statements import RecordAccess
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.frame import Blobs, Frame
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.records.record_loop import RecordPlan, Streams, run_records
from jobrun.runtime.step_errors import NumpyWarnings, run_block
from jobrun.runtime.steps.dispatch import Actions
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.testing.graphs import steps

# From 3.14 on, variables that are only looked at may not count, so that no memory is reused by it.
COUNTS_REFERENCES = sys.version_info < (3, 14)


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
        self.frame.block_path = "e/t"

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
        fields: str | None = None,
    ) -> Block:
        """Compile some steps, for records if ``fields``; ``shared=None`` makes all names shared."""
        built = steps(*parts)
        usage = collect_usage(built)
        shared_names = frozenset(usage.used if shared is None else shared.split())
        names = BlockNames(
            dict(scopes or {}), shared_names, frozenset(usage.used), frozenset(usage.changed)
        )
        records = None
        if fields is not None:
            records = RecordAccess(tuple(fields.split()), (), StepLocation("e/t/read", NOWHERE))
        return compile_block(built, "e/t", names, Actions(names), records=records)

    def do(self, *parts: str | Step, **more: Any) -> Blobs:
        """Run steps and return the task's blobs."""
        run_block(self.block(*parts, **more), self.frame)
        return self.blobs

    def do_record(self, fields: str, *parts: str | Step, **more: Any) -> Blobs:
        """Run steps for one record, which gives the fields the values that they have."""
        block = self.block(*parts, fields=fields, **more)
        source = GivenRecords(tuple(self.blobs[name] for name in fields.split()))
        plan = RecordPlan(lambda _: Streams(), by_record=False, body="e/t")
        run_records(plan, block, self.frame, Streams(source))
        return self.blobs


class GivenRecords:
    """The source of records that are in memory.

    Attributes:
        left: Those not taken yet, with their numbers.
    """

    def __init__(self, *records: tuple[Any, ...]) -> None:
        self.remaining = list(enumerate(records))
        self.begun = self.closed = 0

    def begin(self, frame: Frame) -> None:
        """Count."""
        self.begun += 1

    def connect(self, frame: Frame) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Give one after the other."""
        while self.remaining:
            yield self.remaining.pop(0)

    def close(self) -> None:
        """Count."""
        self.closed += 1
