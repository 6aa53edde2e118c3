"""What a resume would meet: from which epoch, what drifted, what is missing. Only reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from jobrun.checkpoint.metadata import Chosen
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import Fault
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, changes_since, digest_of
from jobrun.runner.drift import Change, data_changes, mapping_changes, numerics_changes
from jobrun.runner.environment import describe_environment
from jobrun.runner.filesystem import file_system, file_system_warnings
from jobrun.runner.fingerprints import data_fingerprints
from jobrun.runner.metadata import Guarded, RunMetadata, choose_epoch
from jobrun.runner.parts import rebuild_group
from jobrun.runner.places import store_of
from jobrun.runner.preflight import callable_digests, preflight
from jobrun.runner.recover import FROM_THE_START, Recovery
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions


@dataclass(frozen=True, slots=True)
class Prospect:
    """What was found, before anything is changed.

    Attributes:
        own: The run's own metadata handler; ``own.recovery`` is the plan.
        other: The handler from outside, if there is one.
        chosen: The epoch, and why.
        changes: All that drifted, whether it is allowed or not.
        faults: Of the preflight, errors and warnings.
    """

    store: CheckpointStore
    own: RunMetadata
    other: Guarded | None
    chosen: Chosen
    changes: tuple[Change, ...]
    faults: tuple[Fault, ...]

    @property
    def plan(self) -> Recovery:
        """What the choice asks for on disk."""
        return self.own.recovery


def look_ahead(run: Run, present: Authored, job: Job, options: RunOptions) -> Prospect:
    """Find out how a run would go on.

    Raises:
        CheckpointError: No epoch can be used, or not the wanted one.
    """
    folder = Path(present.folder)
    store = store_of(run, job, folder)
    own = RunMetadata(
        store, run.path, run.record.run_id, run.record.generation, allow_lost=options.allow_lost
    )
    other = Guarded(options.metadata) if options.metadata else None
    chosen = choose_epoch(own, other, options.epoch)
    begun = own.recovery.epoch != FROM_THE_START
    # Nothing was saved: there is nothing that another spec would not explain.
    changes = changes_of(run, present, job) if begun else ()
    # Of init, only what is rebuilt runs.
    later = replace(job, init=rebuild_group(job.init)) if begun else job
    faults = preflight(later, folder, imports=options.imports)
    faults += file_system_warnings(run.path, file_system(run.path))
    return Prospect(store, own, other, chosen, changes, faults)


def changes_of(run: Run, present: Authored, job: Job) -> tuple[Change, ...]:
    """Everything that differs between what was run and what would be."""
    record, folder = run.record, Path(present.folder)
    changes = [
        *mapping_changes("env", record.variables, present.environment_digests),
        *mapping_changes("callables", record.callables, callable_digests(job, folder)),
        *data_changes(record.data, data_fingerprints(job, folder, record.data)),
        *numerics_changes(record.environment, describe_environment()),
    ]
    if digest_of(present) != record.spec_digest:
        changes = [*changes_since(run, present), *changes]
    return tuple(changes)
