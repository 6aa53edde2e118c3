"""What a resume would meet: from which epoch, what drifted, what is missing. Only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from jobrun.runner.record import RunRecord
from jobrun.runner.recover import FROM_THE_START, Recovery
from jobrun.runner.resizing import (
    Resizing,
    count_field,
    declared_safe,
    resizing,
    without_midway,
)
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions
from jobrun.runner.uploadcheck import upload_faults


@dataclass(frozen=True, slots=True)
class Prospect:
    """What was found, before anything is changed.

    Attributes:
        own: The run's own metadata handler; ``own.recovery`` is the plan.
        other: The handler from outside, if there is one.
        chosen: The epoch, and why.
        changes: All that drifted, whether it is allowed or not.
        faults: Of the preflight, errors and warnings.
        resized: What becomes of the state where there are other nodes than before.
    """

    store: CheckpointStore
    own: RunMetadata
    other: Guarded | None
    chosen: Chosen
    changes: tuple[Change, ...]
    faults: tuple[Fault, ...]
    resized: Resizing

    @property
    def explained(self) -> dict[str, tuple[Fault, ...]]:
        """By field of the spec, why another number of nodes is refused."""
        return {count_field(name): faults for name, faults in self.resized.faults.items()}

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
    resized = _resized(own, store, job) if begun else Resizing()
    changes = declared_safe(changes, resized)
    # Of init, only what is rebuilt runs.
    later = replace(job, init=rebuild_group(job.init)) if begun else job
    faults = preflight(later, folder, imports=options.imports) + upload_faults(later)
    faults += file_system_warnings(run.path, file_system(run.path))
    return Prospect(store, own, other, chosen, changes, faults, resized)


def _resized(own: RunMetadata, store: CheckpointStore, job: Job) -> Resizing:
    epoch = own.recovery.epoch
    found = resizing(job, store.manifest(epoch), store.path(epoch), compare=True)
    return without_midway(found, own.entry.epoch) if own.entry.records else found


def noted(record: RunRecord, found: Prospect) -> tuple[Mapping[str, Any], ...]:
    """What ``run.json`` says of all changes of the number of nodes, this one included."""
    new = [
        {
            "epoch": found.plan.epoch, "nodes": one.name, "before": len(one.before),
            "now": len(one.after), "state": dict(one.layouts),
        }
        for one in found.resized.families
    ]  # fmt: skip
    # A resume that was killed before its first save does the same once more.
    return (*record.resized, *(one for one in new if one not in record.resized[-len(new) :]))


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
