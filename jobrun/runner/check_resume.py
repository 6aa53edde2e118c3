"""Check a resume before it changes anything: its epoch, what drifted, what is missing."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.metadata_handler import Chosen
from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import Fault
from jobrun.graph.group_transforms import rebuild_group
from jobrun.graph.types import Job
from jobrun.runner.checkpoint_stores import open_store
from jobrun.runner.fork_first_state import require_parent
from jobrun.runner.identity.code_digests import CodeDigests, digest_code
from jobrun.runner.identity.drift import Change, count_field, mark_safe_counts
from jobrun.runner.identity.present_changes import find_changes
from jobrun.runner.identity.recorded_job import Authored, check_record
from jobrun.runner.options import RunOptions
from jobrun.runner.preflight.checks import check_upload, preflight
from jobrun.runner.preflight.filesystem import check_file_system, find_file_system
from jobrun.runner.resume.recovery import FROM_INIT, RecoveryPlan
from jobrun.runner.resume.resize import (
    ResizePlan,
    plan_resize,
    refuse_mid_epoch,
)
from jobrun.runner.run_metadata_handler import CheckedHandler, RunMetadata, choose_epoch
from jobrun.runner.rundir.run_directories import Run


class ResumePreview(Struct, frozen=True):
    """What a resume would find, before anything is changed.

    Attributes:
        run_metadata: The run's own metadata handler; ``run_metadata.recovery`` is the plan.
        other: The handler from outside, if there is one.
        chosen: The epoch, and why.
        changes: All that drifted, whether it is allowed or not.
        faults: Of the preflight, errors and warnings.
        resized: What becomes of the state where there are other nodes than before.
        code: The code of the job, as it was compared.
    """

    store: CheckpointStore
    run_metadata: RunMetadata
    other: CheckedHandler | None
    chosen: Chosen
    changes: tuple[Change, ...]
    faults: tuple[Fault, ...]
    resized: ResizePlan
    code: CodeDigests

    @property
    def explained(self) -> dict[str, tuple[Fault, ...]]:
        """Return by spec key why the resume that is checked cannot change the number of nodes."""
        return {count_field(name): faults for name, faults in self.resized.faults.items()}

    @property
    def plan(self) -> RecoveryPlan:
        """Return the recovery plan that the checked resume would apply."""
        return self.run_metadata.recovery


def preview_resume(run: Run, present: Authored, job: Job, options: RunOptions) -> ResumePreview:
    """Check a resume before it changes anything: choose its epoch, list changes and faults.

    Raises:
        CheckpointError: No epoch can be used, or not the wanted one; or a fork that has saved
            nothing yet cannot have its parent's.
    """
    folder = Path(present.folder)
    store = open_store(run, job, folder)
    run_metadata = RunMetadata(
        store,
        run.path,
        run.record.run_id,
        run.record.generation,
        allow_lost=options.allow_lost,
        recorded=run.epoch_without_journal,
    )
    other = CheckedHandler(options.metadata) if options.metadata else None
    chosen = choose_epoch(run_metadata, other, options.epoch)
    begun = run_metadata.recovery.epoch != FROM_INIT
    if not begun:
        require_parent(run)
    # Without a saved epoch nothing has to be explained by the recorded spec.
    code = digest_code(job, folder)
    changes = find_changes(run, present, job, code) if begun else ()
    resized = _plan_resize(run_metadata, store, job) if begun else ResizePlan()
    changes = mark_safe_counts(changes, {family.name for family in resized.families})
    # Only the part of init that is rebuilt on resume runs.
    later = replace(job, init=rebuild_group(job.init)) if begun else job
    faults = preflight(later, folder, options.listeners, imports=options.imports)
    faults += check_upload(later)
    faults += check_file_system(run.path, find_file_system(run.path))
    faults = (*check_record(present, run), *faults)
    return ResumePreview(store, run_metadata, other, chosen, changes, faults, resized, code)


def _plan_resize(run_metadata: RunMetadata, store: CheckpointStore, job: Job) -> ResizePlan:
    epoch = run_metadata.recovery.epoch
    plan = plan_resize(job, store.manifest(epoch), store.path(epoch), compare=True)
    return refuse_mid_epoch(plan, run_metadata.entry.epoch) if run_metadata.entry.records else plan
