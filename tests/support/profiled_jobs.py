"""Run jobs with a meter, for tests of what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobrun.runtime.codegen.meter_protocol import BlockTime, StepTime
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from tests.support.compiling import compile_text

_START = "init: [{task: start, steps: [n = 0, x = zeros(3)]}]\n"


class Metered:
    """The epoch group of a spec, run ``runs`` times under a meter.

    Attributes:
        blocks: Of the epoch group.
        steps: By path, those of all blocks and owners added up.
        blobs: Of the node, at the end.
    """

    def __init__(self, folder: Path, epoch: str, runs: int = 1) -> None:
        job = compile_text(folder, f"{_START}epoch: {epoch}\nstop: [{{epochs: 1}}]").job
        self.meter = Meter()
        session = ThreadsSession()
        try:
            context = RunContext(0, str(folder), str(folder), meter=self.meter)
            session.open(job.cluster, context)
            session.run(job.init, 0, {})
            for number in range(runs):
                session.run(job.epoch, number + 1, {})
            self.blobs: dict[str, Any] = session.read("local", ("n", "x"))
        finally:
            session.close()
        self.blocks = [block for block in self.meter.times() if block.owner.group == "epoch"]
        self.steps: dict[str, StepTime] = {}
        for step in (block_step for block in self.blocks for block_step in block.steps):
            before = self.steps.get(step.path)
            self.steps[step.path] = (
                step
                if before is None
                else StepTime(
                    step.path,
                    step.line,
                    step.calls + before.calls,
                    step.seconds + before.seconds,
                    step.estimated or before.estimated,
                )
            )

    def calls(self) -> dict[str, int]:
        """Return how often each step was called, by path without ``epoch/t/``."""
        return {path.removeprefix("epoch/t/"): step.calls for path, step in self.steps.items()}

    def block(self, path: str) -> list[BlockTime]:
        return [block for block in self.blocks if block.path == path]
