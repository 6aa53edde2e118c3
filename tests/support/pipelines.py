"""Draw random pipelines as specs, with their results computed in plain Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobrun.compile.pipeline import compile_job
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.load import load_spec

WATCHDOG_S = 60.0


@dataclass(frozen=True)
class Stage:
    """A task that reads a queue: ``x`` becomes ``3 x + 1``, unless something happens to it.

    Attributes:
        capacity: Of the queue that it reads, as ``ordered`` is.
        drops: Records that this divides are not sent on; 0 for none.
        fails_at: The record at which it fails; -1 for none.
        ends_at: The record at which it ends by itself; -1 for none.
    """

    instances: int = 1
    capacity: int = 1
    ordered: bool = False
    drops: int = 0
    fails_at: int = -1
    ends_at: int = -1


@dataclass(frozen=True)
class Pipeline:
    """Counters that write to one queue, stages, and a last task that keeps what it gets."""

    counts: tuple[int, ...]
    stages: tuple[Stage, ...]

    @property
    def in_order(self) -> bool:
        """Return whether records cannot overtake each other."""
        before = [len(self.counts), *(stage.instances for stage in self.stages[:-1])]
        lines = zip(before, self.stages, strict=True)
        return self.stages[-1].instances == 1 and all(
            writers == 1 or stage.ordered for writers, stage in lines
        )

    def spec(self) -> str:
        """Return the pipeline as a job whose task ``last`` outputs the records it got: ``seen``."""
        return "\n".join(["jobrun: 1", "name: pipeline", *self._lines()]) + "\n"

    def expected(self) -> tuple[list[int], set[int]]:
        """Return what the last task keeps without a failure; and at which stages one happens."""
        records = [x for start, count in self._ranges() for x in range(start, start + count)]
        odd: set[int] = set()
        for number, stage in enumerate(self.stages):
            odd |= {number} & {number for x in records if x in (stage.fails_at, stage.ends_at)}
            records = [3 * x + 1 for x in records if not stage.drops or x % stage.drops]
        return records, odd

    def _ranges(self) -> Iterator[tuple[int, int]]:
        start = 0
        for count in self.counts:
            yield start, count
            start += count

    def _lines(self) -> Iterator[str]:
        yield "readers:"
        for number, (start, count) in enumerate(self._ranges()):
            source = f"{{counter: {{start: {start}, stop: {start + count}}}, fields: [x]}}"
            yield f"  r{number}: {source}"
        yield "queues:"
        for number, stage in enumerate(self.stages):
            ordered = str(stage.ordered).lower()
            yield f"  q{number}: {{capacity: {stage.capacity}, ordered: {ordered}}}"
        yield "init: [{task: start, steps: [w = 1]}]"
        yield "epoch:"
        for number in range(len(self.counts)):
            yield f"  - {{task: make{number}, read: r{number}, write: {{q0: [x]}}}}"
        for number, stage in enumerate(self.stages):
            yield from self._task(number, stage)
        yield "stop: [{epochs: 1}]"

    def _task(self, number: int, stage: Stage) -> Iterator[str]:
        is_last = number == len(self.stages) - 1
        yield f"  - task: {'last' if is_last else f'stage{number}'}"
        yield f"    read: q{number}"
        yield f"    instances: {stage.instances}"
        if is_last:
            yield "    setup: {instance: {init: ['seen = zeros(0, dtype=int64)']}}"
            yield "    outputs: [seen]"
        else:
            yield f"    write: {{q{number + 1}: [x]}}"
        yield "    steps:"
        if stage.fails_at >= 0:
            yield f"      - {{assert: x != {stage.fails_at}, message: 'at {{x}}'}}"
        if stage.ends_at >= 0:
            yield f"      - {{if: x == {stage.ends_at}, then: [{{stop: task}}]}}"
        if stage.drops:
            yield f"      - {{stop_if: x % {stage.drops} == 0}}"
        yield "      - x = 3 * x + 1"
        if is_last:
            yield "      - seen = concatenate([seen, [x]])"


def run_pipeline(pipeline: Pipeline, folder: Path, grace_s: float = 30.0) -> list[int]:
    """Run a pipeline; return what the last task got, in the order of its instances.

    Raises:
        JobrunError: The group failed.
        TimeoutError: It did not end.
    """
    path = folder / "pipeline.yaml"
    path.write_text(pipeline.spec())
    job = compile_job(load_spec(str(path))).job
    session = ThreadsSession(grace_s=grace_s)
    session.open(job.cluster, RunContext(job.seed, str(folder), str(folder)))
    try:
        session.run(job.init, 0, {})
        outputs = within(WATCHDOG_S, lambda: session.run(job.epoch, 1, {}))
    finally:
        session.close()
    (seen,) = outputs.values()
    parts = seen if isinstance(seen, list) else [seen]
    return [int(x) for part in parts for x in part]


def within(limit_s: float, work: Callable[[], Any]) -> Any:
    """Return what the work gives; a hang is an error."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
