"""Compare a run with what is there now: its spec, code, data, versions and variables.

Before epochs are computed, what has changed decides them; of a run that has finished, it decides
whether the result is still that of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from jobrun.graph.query import has_callables
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.identity.code_digests import CodeDigests, digest_code
from jobrun.runner.identity.data_fingerprints import fingerprint_data
from jobrun.runner.identity.drift import (
    Change,
    compare_data,
    compare_mappings,
    compare_numerics,
    compare_packages,
)
from jobrun.runner.identity.environment import describe_environment
from jobrun.runner.identity.recorded_job import Authored, digest_authored, find_changes_since
from jobrun.runner.rundir.run_directories import Run
from jobrun.runtime.context.imported_code import digest_imported, read_imported
from jobrun.spec.load import LoadedSpec

_CODE = ("callables.", "packages.")


def find_changes(run: Run, present: Authored, job: Job, code: CodeDigests) -> tuple[Change, ...]:
    """List what has changed since a run was recorded, of all that decides its further epochs.

    Args:
        run: The run.
        present: What would continue it.
        job: What that compiles to.
        code: Of the job, as it is now.
    """
    changes = (
        *_find_spec_changes(run, present),
        *find_surrounding_changes(run, present, job, code),
    )
    if not any(change.field.startswith(_CODE) for change in changes):
        return changes
    after_epochs = _list_code_after_epochs(job, Path(present.folder), code)
    return tuple(
        replace(change, kind="safe") if change.field in after_epochs else change
        for change in changes
    )


def find_result_changes(run: Run, present: Authored, job: Job) -> tuple[Change, ...]:
    """List what has changed since a run was recorded, of all that has decided its result.

    Args:
        run: The run.
        present: The job that would be run now.
        job: What that compiles to.
    """
    code = digest_code(job, Path(present.folder))
    changes = (
        *_find_spec_changes(run, present),
        *find_surrounding_changes(run, present, job, code, whole=True),
    )
    secrets = present.missing_secrets if isinstance(present, LoadedSpec) else ()
    unknown = {"numerics.hash_seed", *(f"params.{name}" for name in secrets)}
    return tuple(change for change in changes if change.field not in unknown)


def _find_spec_changes(run: Run, present: Authored) -> tuple[Change, ...]:
    if digest_authored(present) == run.record.spec_digest:
        return ()
    return find_changes_since(run, present)


def find_surrounding_changes(
    run: Run, present: Authored, job: Job, code: CodeDigests, *, whole: bool = False
) -> tuple[Change, ...]:
    """List what has changed besides the spec: code, data, versions, variables.

    Args:
        run: The run.
        present: The job that would be run now.
        job: What that compiles to.
        code: Of the job, as it is now.
        whole: Compare data that only init reads, too, which an epoch does not see any more.
    """
    record, folder = run.record, Path(present.folder)
    environment = dict(record.environment)
    if not has_callables(job):
        # A fixed order: expressions have no sets.
        environment.pop("hash_seed", None)
    return (
        *_find_variable_changes(record.variables, present),
        *compare_mappings("callables", record.callables, code.sources),
        *compare_mappings("imported", read_imported(run.path), digest_imported(run.path)),
        *compare_data(record.data, fingerprint_data(job, folder, record.data), whole=whole),
        *compare_numerics(environment, describe_environment()),
        *compare_packages(record.packages, code.packages),
    )


def _find_variable_changes(before: Mapping[str, str], present: Authored) -> Iterator[Change]:
    """Yield each environment variable and secret that differs, as a ``Change``."""
    safe = set()
    if isinstance(present, LoadedSpec):
        safe = {name for name, param in present.spec.params.items() if param.drift == "safe"}
    for change in compare_mappings("env", before, present.environment_digests):
        field = change.field.removeprefix("env.")
        name = field.removeprefix("params.")
        if name == field:
            yield change
        else:
            yield replace(change, field=field, kind="declared safe" if name in safe else "semantic")


def _list_code_after_epochs(job: Job, folder: Path, code: CodeDigests) -> set[str]:
    """List the code that runs only after the last epoch, as fields of changes."""
    if not (job.download.tasks or job.exit.tasks):
        return set()
    epochs = replace(job, download=TaskGroup("download"), exit=TaskGroup("exit"))
    before = digest_code(epochs, folder)
    sources = {f"callables.{name}" for name in code.sources.keys() - before.sources.keys()}
    return sources | {f"packages.{name}" for name in code.packages.keys() - before.packages.keys()}
