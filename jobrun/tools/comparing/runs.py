"""How two runs differ: what was run, with what, on what, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobrun.core.errors import CheckpointError
from jobrun.runner.authored import is_from_python, recorded
from jobrun.runner.drift import Change, mapping_changes, numerics_changes, spec_changes
from jobrun.runner.rundir import Run
from jobrun.spec.load import LoadedSpec
from jobrun.tools.comparing.states import BlobApart, states_apart
from jobrun.tools.inspection import inspect
from jobrun.tools.runs.series import read_metrics


@dataclass(frozen=True, slots=True)
class RunsApart:
    """How two runs, or a run and a spec, differ.

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
    state: tuple[BlobApart, ...] = ()
    epochs: tuple[int, int] = (-1, -1)

    @property
    def state_is_equal(self) -> bool:
        """Every blob has the same bits in both."""
        return all(blob.apart.equal for blob in self.state)


def runs_apart(first: Run, second: Run, epochs: tuple[str, str] = ("", "")) -> RunsApart:
    """Compare two runs.

    Args:
        first: One.
        second: The other.
        epochs: Numbers of epochs to compare, as text; empty for the newest.

    Raises:
        CheckpointError: An epoch that is named is not there, or a checkpoint is damaged.
    """
    state, compared = _states(first, second, epochs)
    return RunsApart(
        spec=_spec_changes(first, second),
        code=mapping_changes("callables", first.record.callables, second.record.callables),
        environment=numerics_changes(first.record.environment, second.record.environment),
        metrics=_metrics(first, second),
        state=state,
        epochs=compared,
    )


def run_apart_from(run: Run, present: LoadedSpec) -> RunsApart:
    """Compare what a run was made from with a spec as it is now."""
    return RunsApart(spec=spec_changes(recorded(run), present))


def _spec_changes(first: Run, second: Run) -> tuple[Change, ...]:
    if is_from_python(first) or is_from_python(second):
        return ()
    return spec_changes(recorded(first), recorded(second))


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
) -> tuple[tuple[BlobApart, ...], tuple[int, int]]:
    found = []
    for run, epoch in zip((first, second), epochs, strict=True):
        try:
            found.append(inspect(f"{run.path}@{epoch}" if epoch else str(run.path), Path()))
        except CheckpointError:
            if epoch or run.has_saved:
                raise
            return (), (-1, -1)
    return states_apart(found[0], found[1]), (found[0].epoch, found[1].epoch)
