"""Write and read a run's ``spec/`` folder: authored files, resolved spec, plan."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import CheckpointError, DriftError, Fault, JobrunError, SpecError
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import disk_faults, read_regular, sync_directory, write_file
from jobrun.core.files.json_files import build, read_json
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.rundir.run_directories import Run
from jobrun.spec.dump import dump_resolved
from jobrun.spec.load import LoadedSpec, load_spec
from jobrun.spec.recorded_origins import AuthoredFile, Origins, recorded_positions
from jobrun.spec.yaml.spec_text import read_text

RESOLVED_NAME = "resolved.yaml"
ORIGINS_NAME = "origins.json"
PLAN_NAME = "plan.json"
_PRIVATE_MODE = 0o700
# Written before run.json names its digest, renamed after: a kill in between loses neither spec.
_NEXT_NAME = "resolved.next.yaml"
_OWN_NAMES = frozenset({RESOLVED_NAME, ORIGINS_NAME, PLAN_NAME, _NEXT_NAME})
_RECORDED = " (recorded)"


def stage_spec(run: Path, loaded: LoadedSpec, job: Job) -> str:
    """Write a resolved spec to ``spec/`` under a temporary name; return the spec's digest.

    Raises:
        EnvironmentFaultError: A file cannot be written.
    """
    folder = run / "spec"
    resolved = dump_resolved(loaded).encode()
    copy_names = _kept_names(loaded.files)
    with disk_faults("E354", f"write {folder}"):
        if loaded.secrets:
            # Any file may contain data derived from a secret, such as a checkpoint or a log.
            run.chmod(_PRIVATE_MODE)
        _keep_previous(folder)
        for name, text in _authored(loaded.files, copy_names).items():
            write_file(folder / name, text.encode(), private=True)
        write_file(folder / PLAN_NAME, plan_text(job).encode())
        write_file(
            folder / ORIGINS_NAME, _origins_text(run, loaded, copy_names, resolved), private=True
        )
        write_file(folder / _NEXT_NAME, resolved, private=True)
    return digest_bytes(resolved)


def install_spec(run: Path) -> None:
    """Replace the spec in ``spec/`` by the staged one, once ``run.json`` has the new digest.

    Raises:
        EnvironmentFaultError: A file cannot be renamed.
    """
    folder = run / "spec"
    with disk_faults("E354", f"write {folder}"):
        (folder / _NEXT_NAME).replace(folder / RESOLVED_NAME)
        sync_directory(folder)


def load_recorded_spec(run: Run) -> LoadedSpec:
    """Load the spec that the run last ran from its ``spec/`` folder.

    Raises:
        CheckpointError: It is not there, or damaged.
        DriftError: E441, it was edited.
        SpecError: An environment variable that it needs is not set.
    """
    return load_changed_spec(run)


def load_changed_spec(
    run: Run,
    *,
    spec: str = "",
    values: tuple[str, ...] = (),
    overrides: tuple[str, ...] = (),
    fork: bool = False,
) -> LoadedSpec:
    """Load the spec in a run's ``spec/`` folder, or a file instead of it, with overrides.

    Values of the recorded spec have the places that its author knows. ``warnings`` has a W185
    where one of the author's files says something else now.

    Args:
        run: The run.
        spec: Another spec file instead of the recorded one.
        values: Files merged over it.
        overrides: ``PATH=VALUE`` texts, put in last.
        fork: It is for a new run, which takes another spec by another command.

    Raises:
        CheckpointError: There is no recorded spec, or it is damaged.
        DriftError: E441, the recorded spec was edited.
        SpecError: The spec is not valid.
    """
    if spec:
        return load_spec(spec, values=values, overrides=overrides)
    path = _recorded_path(run)
    origins = _recorded_origins(run)
    loaded = load_spec(
        str(path), values=values, overrides=overrides, folder=str(run.folder), origins=origins
    )
    notes = _changed_files(run, origins, fork=fork) if origins else ()
    return replace(loaded, warnings=(*loaded.warnings, *notes))


def is_as_recorded(run: Run) -> bool:
    """Return whether the resolved spec in ``spec/`` has the digest in ``run.json``."""
    try:
        return bool(run.record.resolved_digest) and bool(_recorded_path(run))
    except JobrunError:
        return False


def _recorded_path(run: Run) -> Path:
    folder, digest = run.path / "spec", run.record.resolved_digest
    path = folder / RESOLVED_NAME
    for candidate in (path, folder / _NEXT_NAME) if digest else ():
        with contextlib.suppress(OSError):
            if digest_bytes(read_regular(candidate)) == digest:
                return candidate
    if not path.is_file():
        raise CheckpointError.of(
            "E375", f"the run has no {path}", "name its spec: jobrun resume RUN --spec FILE"
        )
    # A run of an early version has no digest to compare with.
    if digest:
        raise _not_recorded(run, path)
    return path


def _not_recorded(run: Run, path: Path) -> JobrunError:
    shown = os.path.relpath(path)
    origins = _recorded_origins(run)
    spec = next((file.shown for file in origins.files), "") if origins else ""
    handle = run.handle(run.path.parent.parent)
    command = f"jobrun resume {shlex.quote(handle)} --spec {shlex.quote(spec) or 'FILE'}"
    if len(origins.files if origins else ()) != 1:
        command += " (with the -f and --set of the start)"
    mend = (
        f"give the spec again, and it is compared with the recorded digest: {command}; "
        f"or put {path.name} back from a copy of the run; to change a job, change its own file"
    )
    message = f"{shown} is not the spec that this run recorded"
    try:
        load_spec(str(path), folder=str(run.folder))
    except SpecError as error:
        # E038: an environment variable is not set, which says nothing about the file.
        if any(fault.code != "E038" for fault in error.faults):
            why = error.faults[0].message
            return CheckpointError.of("E440", f"{message}, and it is damaged: {why}", mend)
    return DriftError.of("E441", f"{message}: it was edited, or damaged on the disk", mend)


class _OriginsForm(Struct, frozen=True):
    """What ``origins.json`` holds."""

    resolved: str
    files: tuple[Mapping[str, str], ...]
    places: tuple[tuple[int, ...], ...]


def _recorded_origins(run: Run) -> Origins | None:
    """Read ``origins.json`` in a run's ``spec/`` folder: where its author wrote each value."""
    folder = run.path / "spec"
    try:
        content = build(_OriginsForm, read_json(folder / ORIGINS_NAME))
        if content.resolved != run.record.resolved_digest:
            return None
        return Origins(
            tuple(_authored_file(run, file_facts) for file_facts in content.files), content.places
        )
    except (OSError, ValueError, KeyError):
        # It only matters for the positions that faults report.
        return None


def _authored_file(run: Run, facts: Mapping[str, str]) -> AuthoredFile:
    name = str(facts["name"])
    if not facts["path"]:
        shown = name if name.endswith(_RECORDED) else f"{name}: {facts['text']}{_RECORDED}"
        return AuthoredFile(shown, str(facts["text"]))
    path = os.path.normpath(run.path / facts["path"])
    copy_path = run.path / "spec" / Path(facts["kept"]).name
    try:
        text = read_regular(copy_path).decode()
    except (OSError, ValueError):
        text = ""
    changed = False
    try:
        changed = digest_bytes(read_text(path, path).encode()) != facts["digest"]
        shown = str(copy_path) if changed else path
    except SpecError:
        shown = str(copy_path)
    near = os.path.relpath(shown)
    # Faults look up the lines of the file by this name, too.
    return AuthoredFile(shown if near.startswith("..") else near, text, path, changed)


def _changed_files(run: Run, origins: Origins, *, fork: bool) -> tuple[Fault, ...]:
    changed = [file.path for file in origins.files if file.changed]
    if not changed:
        return ()
    names = ", ".join(_near(path) for path in changed)
    handle = run.handle(run.path.parent.parent)
    spec = _near(next(file.path for file in origins.files if file.path))
    command = ("fork", handle, spec) if fork else ("resume", handle, "--spec", spec)
    words = shlex.join(("jobrun", *command))
    if len(origins.files) > 1:
        words += " (with the -f and --set of the start)"
    message = f"{names} has changed since this run started; continuing with the recorded spec"
    return (Fault("W185", message, f"to use the new one: {words}", severity="warning"),)


def _near(path: str) -> str:
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def _origins_text(
    run: Path, loaded: LoadedSpec, copy_names: Mapping[str, str], resolved: bytes
) -> bytes:
    files = []
    for shown, text in loaded.files.items():
        is_option = shown.startswith("--set")
        path = "" if is_option else loaded.authored.get(shown) or os.path.abspath(shown)  # noqa: PTH100
        files.append(
            {
                "name": shown,
                "path": os.path.relpath(path, run) if path else "",
                "kept": copy_names.get(shown, ""),
                "digest": digest_bytes(text.encode()),
                "text": text if is_option else "",
            }
        )
    content = {
        "resolved": digest_bytes(resolved),
        "files": files,
        "places": recorded_positions(loaded.source.root, list(loaded.files)),
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def plan_text(job: Job) -> str:
    """Return the text of ``plan.json`` for a run's ``spec/`` folder: the plan of its job."""
    return json.dumps(build_plan(job), indent=2) + "\n"


def build_plan(job: Job) -> dict[str, Any]:
    """Build the contents of ``plan.json`` in a run's ``spec/`` folder from the job."""
    return {
        "job": job.name,
        "nodes": [node.name for node in job.cluster],
        "groups": {group.name: _tasks(group) for group in job.groups},
        "state": {node: list(names) for node, names in job.state},
        "constants": {node: list(names) for node, names in job.constants},
        "exact": job.exactness.exact,
        "not_exact_because": [list(reason) for reason in job.exactness.reasons],
        "blas_threads": job.blas_threads,
        "seed": job.seed,
    }


def _tasks(group: TaskGroup) -> list[dict[str, Any]]:
    return [
        {
            "task": task.name,
            "node": task.node,
            "needs": list(task.needs),
            "instances": task.instances,
            "rebuild": task.rebuild,
            "outputs": [output.name for output in task.outputs],
        }
        for task in group.tasks
    ]


def _kept_names(files: Mapping[str, str]) -> dict[str, str]:
    """Choose distinct file names in ``spec/`` for the copies of a spec and its includes."""
    copy_names: dict[str, str] = {}
    for shown in files:
        if shown.startswith("--set"):
            continue
        name = Path(shown).name
        stem, number = name, 1
        while name in copy_names.values() or name in _OWN_NAMES:
            number += 1
            name = f"{number}-{stem}"
        copy_names[shown] = name
    return copy_names


def _authored(files: Mapping[str, str], copy_names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the author's spec files, as copied to ``spec/``, by file name."""
    options = "".join(
        f"{shown}: {text}\n" for shown, text in files.items() if shown.startswith("--set")
    )
    named = {copy_names[shown]: text for shown, text in files.items() if shown in copy_names}
    return {**named, **({"options.txt": options} if options else {})}


def _keep_previous(folder: Path) -> None:
    current = folder / RESOLVED_NAME
    if current.is_file():
        number = len(list(folder.glob("resolved-*.yaml"))) + 1
        write_file(folder / f"resolved-{number}.yaml", read_regular(current), private=True)
