"""Define the protocol of a step meter, and the values in which it gives the times of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from jobrun.graph.types import Job
    from jobrun.runtime.codegen.expressions import Globals
    from jobrun.runtime.codegen.line_table import StepLocation


class Owner(NamedTuple):
    """Whose block ran: ``task`` is empty for what is around all tasks of the node."""

    group: str
    node: str
    task: str
    instance: int


class Span(NamedTuple):
    """One run of a block, in seconds of the monotonic clock of the process."""

    start: float
    end: float
    epoch: int
    thread: int


class StepTime(Struct, frozen=True):
    """What one step has taken by itself, without the steps inside it.

    Attributes:
        path: The step's path.
        line: Its line in the spec; 0 where there is none.
        calls: How often it ran.
        seconds: The sum over these runs.
        estimated: Most passes around it were timed as a whole, and shared out by those looked into.
    """

    path: str
    line: int
    calls: int
    seconds: float
    estimated: bool


class BlockTime(Struct, frozen=True):
    """What one block has taken, of one owner, over all its runs.

    Attributes:
        path: The block's path.
        seconds: With everything inside, from its beginning to its end.
        spans: The first runs.
    """

    owner: Owner
    path: str
    runs: int
    seconds: float
    steps: tuple[StepTime, ...]
    spans: tuple[Span, ...]


class Instrumenter(Protocol):
    """Adds clock reads to a block's code, and collects step times of other processes."""

    def instrument(
        self, body: list[ast.stmt], places: Sequence[StepLocation], path: str, table: Globals
    ) -> list[ast.stmt]:
        """Add reads of the clock to generated statements, as every step meter must."""

    def merge_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Add the step times that another process measured, as every step meter must.

        Args:
            reporter: No two processes of an invocation have the same.
            times: As ``Meter.take_times`` returns them there.
        """


class StepProfiler(Protocol):
    """A profiler that measures the steps of a job."""

    def meter_for(self, job: Job) -> Instrumenter:
        """Declare the profiler protocol's method that returns the step meter of a job."""
