"""Record, reload and compare the authored job of a run: a spec, or a job built in Python.

The one place that knows the difference; for everyone else it is something with a folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import assert_never

from msgspec import Struct, field

from jobrun.compile.pipeline import compile_job, complete
from jobrun.core.errors import CheckpointError, DriftError, Fault, SpecError, UsageError
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import disk_faults, read_regular, sync_directory, write_file
from jobrun.graph.types import Job
from jobrun.runner.identity.drift import Change, Kind, compare_specs
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.run_inputs import SEED, RunInputs, build_inputs
from jobrun.runner.rundir.run_json import Param
from jobrun.runner.rundir.spec_folder import (
    PLAN_NAME,
    RESOLVED_NAME,
    install_spec,
    is_as_recorded,
    load_recorded_spec,
    plan_text,
    stage_spec,
)
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import LoadedSpec

GRAPH_NAME = "graph.txt"
_NEXT_GRAPH_NAME = "graph.next.txt"
_PARAM = (float, int, bool, str)
# Groups after the last epoch compute no state.
_END_GROUPS = frozenset({"download", "exit"})
_SAFE: Kind = "safe"
_UNUSABLE = frozenset({"E375", "E440", "E441"})

# First words of the lines in a rendered job that say when a run ends, how failures are handled,
# what is kept and reported, and where it runs; they never change a bit of the state.
_SAFE_WORDS = frozenset(
    {
        "adapt",
        "stop",
        "metric",
        "fail_if",
        "expect",
        "deadline",
        "checkpoint",
        "limits",
        "place",
        "layout",
    }
)


class PythonJob(Struct, frozen=True):
    """A completed job that was built in Python, without a spec.

    Attributes:
        job: As completed.
        folder: Where relative paths start, absolute.
    """

    job: Job
    folder: str
    environment_digests: Mapping[str, str] = field(default_factory=dict)


Authored = LoadedSpec | PythonJob


def digest_authored(authored: Authored) -> str:
    """Digest a job as it is recorded: its resolved spec, or its graph if built in Python."""
    if isinstance(authored, LoadedSpec):
        return spec_digest(authored)
    return digest_bytes(_graph_text(authored.job).encode())


def _graph_text(job: Job) -> str:
    """Return the text that a run records for a job built in Python, in place of a spec."""
    from jobrun.graph.job_text import render_job  # noqa: PLC0415 - not for jobs of specs

    return render_job(job)


def recordable_params(authored: Authored) -> dict[str, Param]:
    """Return a job's params as a run records them: without secrets, objects as ``repr``."""
    match authored:
        case LoadedSpec():
            return authored.recordable_params
        case PythonJob():
            pairs = authored.job.params
            return {name: x if isinstance(x, _PARAM) else repr(x) for name, x in pairs}
        case _:
            assert_never(authored)


def known_inputs(authored: Authored, seed: int) -> RunInputs:
    """Return the inputs by which a run of the authored job is found again.

    Args:
        authored: The job.
        seed: Of the job.
    """
    params = authored.spec.params if isinstance(authored, LoadedSpec) else {}
    return build_inputs(
        recordable_params(authored),
        authored.environment_digests,
        seed,
        list_given(authored),
        [name for name, declared in params.items() if declared.drift == "safe"],
    )


def list_given(authored: Authored) -> tuple[str, ...]:
    """List the fields of a job's inputs that are no defaults of a spec; in Python all are given."""
    match authored:
        case LoadedSpec():
            return authored.external_params
        case PythonJob():
            return (SEED, *(f"params.{name}" for name, _ in authored.job.params))
        case _:
            assert_never(authored)


def compile_authored(authored: Authored) -> Job:
    """Compile a recorded or given job to a ``Job``: a spec, or a graph built in Python.

    Raises:
        SpecError: It does not compile.
    """
    match authored:
        case LoadedSpec():
            return compile_job(authored).job
        case PythonJob():
            return complete(authored.job).job
        case _:
            assert_never(authored)


def stage_authored(run: Path, authored: Authored, job: Job) -> str:
    """Write the new job beside the recorded one, which it will replace, in the run's ``spec/``.

    ``install_authored`` puts it in place.

    Returns:
        What ``run.json`` says of it as ``resolved_digest``.

    Raises:
        EnvironmentFaultError: A file cannot be written.
    """
    if isinstance(authored, LoadedSpec):
        return stage_spec(run, authored, job)
    folder = run / "spec"
    with disk_faults("E354", f"write {folder}"):
        current = folder / GRAPH_NAME
        if current.is_file():
            number = len(list(folder.glob("graph-*.txt"))) + 1
            write_file(folder / f"graph-{number}.txt", read_regular(current), private=True)
        write_file(folder / PLAN_NAME, plan_text(job).encode())
        write_file(folder / _NEXT_GRAPH_NAME, _graph_text(job).encode(), private=True)
    return ""


def install_authored(run: Path, authored: Authored) -> None:
    """Replace a run's recorded job by the staged one: its spec, or the graph of a Python job.

    Raises:
        EnvironmentFaultError: A file cannot be renamed.
    """
    if isinstance(authored, LoadedSpec):
        install_spec(run)
        return
    folder = run / "spec"
    with disk_faults("E354", f"write {folder}"):
        (folder / _NEXT_GRAPH_NAME).replace(folder / GRAPH_NAME)
        sync_directory(folder)


def require_secrets(present: Authored) -> None:
    """Require a value for each secret param of a job to resume, as none is recorded in the run.

    Raises:
        SpecError: E448, one is missing.
    """
    if isinstance(present, LoadedSpec) and present.missing_secrets:
        words = " ".join(f"--set params.{name}=VALUE" for name in present.missing_secrets)
        raise SpecError(
            *(
                Fault(
                    "E448",
                    f"the secret param '{name}' has no value, and none is recorded",
                    f"give it again: {words}",
                    present.source.at(("params", name)),
                    f"params.{name}",
                )
                for name in present.missing_secrets
            )
        )


def needs_recording(run: Run, present: Authored) -> bool:
    """Return whether the present job differs from the one recorded in the run's ``spec/``."""
    if digest_authored(present) != run.record.spec_digest:
        return True
    return isinstance(present, LoadedSpec) and not is_as_recorded(run)


def check_record(present: Authored, run: Run | None = None) -> tuple[Fault, ...]:
    """Return a warning for each file of a run's recorded job that was edited since."""
    if not isinstance(present, LoadedSpec):
        return ()
    notes = tuple(fault for fault in present.warnings if fault.code == "W185")
    if run and run.record.resolved_digest and not is_as_recorded(run):
        message = f"spec/{RESOLVED_NAME} is not what this run recorded; the given spec is used"
        mend = "it is written again; the file that was there is kept as resolved-N.yaml"
        notes += (Fault("W186", message, mend, severity="warning"),)
    return notes


def is_from_python(run: Run) -> bool:
    """Return whether the run's recorded job was built in Python, not authored as a spec."""
    folder = run.path / "spec"
    return (folder / GRAPH_NAME).is_file() and not (folder / RESOLVED_NAME).is_file()


def load_recorded(run: Run) -> LoadedSpec:
    """Load the spec that a run recorded as its job; raise if the job was built in Python.

    Raises:
        UsageError: E376, it was made in Python.
        CheckpointError: It is not there.
        SpecError: An environment variable that it needs is not set.
    """
    require_spec(run)
    return load_recorded_spec(run)


def require_spec(run: Run) -> None:
    """Raise if a run's recorded job was built in Python, where a spec is required.

    Raises:
        UsageError: E376, the run was made in Python.
    """
    if is_from_python(run):
        raise UsageError.of(
            "E376",
            f"run {run.name} was started from Python, so there is no spec to continue with",
            f"resume or fork it from Python, with the job: jobrun.resume({str(run.path)!r}, job)",
        )


def find_changes_since(run: Run, present: Authored) -> tuple[Change, ...]:
    """Compare a run's recorded job, spec or Python, with the present job; return what changed.

    Raises:
        UsageError: The run was made from a spec and the present job was not, or the other way.
        CheckpointError: The record is not there.
    """
    match present:
        case LoadedSpec():
            return _spec_changes(run, present)
        case PythonJob():
            return compare_graphs(_recorded_graph(run), _graph_text(present.job))
        case _:
            assert_never(present)


def compare_graphs(before: str, after: str) -> tuple[Change, ...]:
    """Compare the recorded and present graphs of a Python job; return the lines that changed.

    What ends a run, what runs after its last epoch, what is measured and what is kept may change;
    everything else is semantic.
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - on resume only

    old, new = before.splitlines(), after.splitlines()
    changes = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lost, got = old[i:j], new[k:m]
        groups = {
            *map(_group_of, repeat(old), range(i, j)),
            *map(_group_of, repeat(new), range(k, m)),
        }
        if groups <= _END_GROUPS:
            section, kind = f"graph.{min(groups)}", _SAFE
        else:
            section, kind = _section(old, i) if lost else _section(new, k), _kind([*lost, *got])
        changes.append(Change(section, kind, _lines(lost), _lines(got)))
    return tuple(changes)


def _group_of(lines: list[str], at: int) -> str:
    """Return the task group to which a line of a Python job's text belongs; empty for none."""
    header = next((line for line in reversed(lines[: at + 1]) if not line.startswith(" ")), "")
    word, _, name = header.partition(" ")
    return name.partition(" ")[0] if word == "group" else ""


def _spec_changes(run: Run, present: LoadedSpec) -> tuple[Change, ...]:
    try:
        return compare_specs(load_recorded(run), present)
    except (CheckpointError, DriftError) as error:
        if error.faults[0].code not in _UNUSABLE:
            raise
        # The texts cannot be compared field by field: report one change of the whole job.
        before = f"{run.record.spec_digest[:19]} (spec/{RESOLVED_NAME} cannot be compared)"
        return (Change("spec", "semantic", before, digest_authored(present)[:19]),)


def _recorded_graph(run: Run) -> str:
    path = run.path / "spec" / GRAPH_NAME
    if is_from_python(run):
        for candidate in (path, path.with_name(_NEXT_GRAPH_NAME)):
            with contextlib.suppress(OSError):
                if digest_bytes(read_regular(candidate)) == run.record.spec_digest:
                    return read_regular(candidate).decode(errors="backslashreplace")
        raise DriftError.of(
            "E441",
            f"{os.path.relpath(path)} is not the job that this run recorded: it was edited, or "
            "damaged on the disk",
            "resume with the job that was run, unchanged; or put graph.txt back from a copy of "
            "the run",
        )
    if (path.parent / RESOLVED_NAME).is_file():
        raise UsageError.of(
            "E376",
            f"run {run.name} was made from a spec, and not from a job built in Python",
            "resume it with its spec: jobrun resume, or jobrun.resume(path)",
        )
    raise CheckpointError.of(
        "E375", f"the run has no {path}", "put it back from a copy of the run, or start again"
    )


def _kind(lines: list[str]) -> Kind:
    words = {line.split(" ", 1)[0] for line in lines}
    if words <= _SAFE_WORDS:
        return "safe"
    return "numerics" if words == {"blas_threads"} else "semantic"


def _section(lines: list[str], at: int) -> str:
    """Return the task or group to which a line of a Python job's recorded text belongs.

    Such as ``graph.local/lloyd``.
    """
    for line in reversed(lines[: at + 1]):
        words = line.split(";")[0].split(" [")[0].split()
        if words and words[0] == "task":
            return f"graph.{words[1]}"
        if not line.startswith(" "):
            return f"graph.{words[0] if words else ''}"
    return "graph"


def _lines(lines: list[str]) -> str:
    text = "; ".join(line.strip() for line in lines)
    return text if len(text) <= 120 else text[:117] + "…"
