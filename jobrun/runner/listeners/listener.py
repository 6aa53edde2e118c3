"""Define listeners, and find them by name: what receives the metrics of a run while it runs.

A run may be killed at any moment and resumed from an earlier epoch, which is then computed and
measured again. So each start hands over all that the run has measured up to there (``begin``), and
a listener makes its destination equal to that; then each epoch is handed over once (``record``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from jobrun.core.errors import EnvironmentFaultError, Fault
from jobrun.core.text.names import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Number = float | int | bool | str
Outcome = Literal["finished", "stopped", "interrupted", "failed"]
_LARGEST = 1.7976931348623157e308

GROUP = "jobrun.listeners"
# Class and package of each listener; as text, because only its process may import it.
SHIPPED: dict[str, tuple[str, str]] = {
    "tensorboard": (
        "jobrun.runner.listeners.tensorboard_listener:TensorBoardListener",
        "tensorboardX",
    ),
    "mlflow": ("jobrun.runner.listeners.mlflow:MlflowListener", "mlflow"),
    "wandb": ("jobrun.runner.listeners.wandb:WandbListener", "wandb"),
}


class ListenedRun(Struct, frozen=True):
    """The run whose metrics a listener gets.

    Attributes:
        directory: Of the run; a listener may keep files in a folder of its own there.
        job: The job's name.
        name: The run's name below the job's.
        run_id: A UUID, which a resume keeps and no other run has.
        params: The values of the params, secrets hidden.
    """

    directory: Path
    job: str
    name: str
    run_id: str
    params: Mapping[str, Number]


class EpochMetrics(Struct, frozen=True):
    """The metrics of one epoch.

    Attributes:
        epoch: Its number.
        at: When they were measured, with a time zone.
        values: By name; those of a step are called ``task.name``, on one of several nodes or
            instances ``node/task.0.name``.
    """

    epoch: int
    at: datetime
    values: Mapping[str, Number]


class RunListener(Protocol):
    """Receives the metrics of a run. Made once, in a process of its own, without arguments.

    It may take its time, and may raise: then the run says so once, and continues without it.
    """

    def begin(self, run: ListenedRun, history: Sequence[EpochMetrics]) -> None:
        """Start to listen to a run: store the metrics of its past epochs, and drop later ones.

        It is called when the run starts and is resumed, and again when it goes back to an earlier
        epoch. What an earlier process has sent may be there, whole or not, and even further epochs.

        Args:
            run: The run.
            history: In the order of epochs; empty for a new run.
        """

    def record(self, metrics: EpochMetrics) -> None:
        """Store the metrics of the epoch that has just ended, as every kind of listener must.

        Another call may add further names to the last epoch.
        """

    def end(self, outcome: Outcome) -> None:
        """Write the listener's last metrics and close its files or connection at the run's end.

        A resume may follow in another process.
        """


def to_float(value: Number) -> float | None:
    """Convert a metric to a float for listeners: infinity if it is too large, None for a text.

    >>> to_float(True), to_float(10**400), to_float("good")
    (1.0, inf, None)
    """
    if isinstance(value, str):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return float("inf") if value > 0 else float("-inf")
    return float(value)


def check_listeners(names: Iterable[str]) -> tuple[Fault, ...]:
    """Collect a fault for each listener that is not registered or whose package is missing."""
    return tuple(_faults(dict.fromkeys(names)))


def _faults(names: Iterable[str]) -> Iterator[Fault]:
    for name in names:
        if name in SHIPPED:
            package = SHIPPED[name][1]
            if find_spec(package) is None:
                message = f"the listener '{name}' needs the package '{package}'"
                yield Fault("E224", message, f"install it: pip install 'jobrun[{name}]'")
        elif not _entry_points().select(name=name):
            known = {*SHIPPED, *_entry_points().names}
            yield Fault("E224", f"there is no listener '{name}'", did_you_mean(name, known))


def open_listener(name: str) -> RunListener:
    """Create the listener registered under a name, which may import large packages.

    Raises:
        EnvironmentFaultError: E224, it is not known, or cannot be imported.
    """
    faults = check_listeners([name])
    if faults:
        raise EnvironmentFaultError(*faults)
    try:
        if name in SHIPPED:
            module, _, attribute = SHIPPED[name][0].partition(":")
            shipped: RunListener = getattr(import_module(module), attribute)()
            return shipped
        (entry_point, *_) = _entry_points().select(name=name)
        other: RunListener = entry_point.load()()
    except (ImportError, AttributeError) as error:
        raise EnvironmentFaultError.of(
            "E224", f"the listener '{name}' cannot be imported: {error}", "mend its package"
        ) from error
    return other


def _entry_points() -> EntryPoints:
    # Lazy: the module imports email, zipfile and socket, and few users have such a listener.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)
