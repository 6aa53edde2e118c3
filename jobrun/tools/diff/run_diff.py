"""Compare two runs: their specs, parameters, machines, metrics and final states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobrun.core.errors import CheckpointError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.runner.identity.drift import Change, compare_mappings, compare_numerics, compare_specs
from jobrun.runner.identity.recorded_job import is_from_python, load_recorded
from jobrun.runner.rundir.run_directories import Run
from jobrun.spec.load import LoadedSpec
from jobrun.tools.diff.checkpoint_diff import BlobDifference, compare_states
from jobrun.tools.inspection import inspect
from jobrun.tools.runs.metrics import read_metrics


@dataclass(frozen=True, slots=True)
class RunDifference:
    """The differences between two runs, or a run and a spec.

    Attributes:
        spec: Fields of the spec and values of params.
        code: Callables and scripts whose source differs.
        environment: Versions and numerics.
        metrics: Name, and its last value in each; None where there is none.
        state: Every blob of the newest epochs, or of the epochs named; empty for a spec.
        epochs: Which epochs those are; -1 where there is none.
    """

    spec: tuple[Change, ...]
    code: tuple[Change, ...] = ()
    environment: tuple[Change, ...] = ()
    metrics: tuple[tuple[str, Any, Any], ...] = ()
    state: tuple[BlobDifference, ...] = ()
    epochs: tuple[int, int] = (-1, -1)

    @property
    def state_is_equal(self) -> bool:
        """Whether two runs' final states are equal bit for bit, in their diff."""
        return all(blob.apart.equal for blob in self.state)


def compare_runs(first: Run, second: Run, epochs: tuple[str, str] = ("", "")) -> RunDifference:
    """Compare two runs by their specs, machines, metrics and final states.

    Args:
        first: One.
        second: The other.
        epochs: Numbers of epochs to compare, as text; empty for the newest.

    Raises:
        CheckpointError: An epoch that is named is not there, or a checkpoint is damaged.
    """
    state, compared = _states(first, second, epochs)
    return RunDifference(
        spec=_spec_changes(first, second),
        code=compare_mappings("callables", first.record.callables, second.record.callables),
        environment=compare_numerics(first.record.environment, second.record.environment),
        metrics=_metrics(first, second),
        state=state,
        epochs=compared,
    )


def compare_run_with_spec(run: Run, present: LoadedSpec) -> RunDifference:
    """Compare a run with the present text of the spec that it was made from."""
    return RunDifference(spec=compare_specs(load_recorded(run), present))


def _spec_changes(first: Run, second: Run) -> tuple[Change, ...]:
    if is_from_python(first) or is_from_python(second):
        return ()
    return compare_specs(load_recorded(first), load_recorded(second))


def _metrics(first: Run, second: Run) -> tuple[tuple[str, Any, Any], ...]:
    ours, theirs = _latest(first), _latest(second)
    return tuple(
        (name, ours.get(name), theirs.get(name)) for name in dict.fromkeys((*ours, *theirs))
    )


def _latest(run: Run) -> dict[str, Any]:
    found = read_metrics(run.path)
    latest: dict[str, Any] = {}
    for _, values in found.rows:
        pairs = zip(found.names, values, strict=True)
        latest |= {name: value for name, value in pairs if value is not None}
    return latest


def _states(
    first: Run, second: Run, epochs: tuple[str, str]
) -> tuple[tuple[BlobDifference, ...], tuple[int, int]]:
    found = []
    for run, epoch in zip((first, second), epochs, strict=True):
        try:
            found.append(inspect(f"{run.path}@{epoch}" if epoch else str(run.path), Path()))
        except CheckpointError:
            if epoch or run.has_saved:
                raise
            return (), (-1, -1)
    return compare_states(found[0], found[1]), (found[0].epoch, found[1].epoch)
