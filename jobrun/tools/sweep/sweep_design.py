"""Design a sweep: compile the job of each point before any starts; and record what was requested.

Each point has a job's name of its own, made of its values, so that its runs are found, and
continued, by nothing but ``jobrun run --resume auto``, and never get in the way of the runs of the
spec itself. The recorded request lets a sweep be shown and resumed without repeating it; the status
of its points is in their own runs, whose tags let ``jobrun runs --tag sweep=walk`` find them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import Fault, JobrunError, SpecError, UsageError
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.json_files import build, read_json, write_json
from jobrun.core.text.names import FILE_NAME
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.conditions import StopWithoutImprovement
from jobrun.graph.types import Job
from jobrun.runner.identity.recorded_job import known_inputs
from jobrun.runner.rundir.run_inputs import RunInputs
from jobrun.spec.dump import spec_digest
from jobrun.spec.load import LoadedSpec, load_spec
from jobrun.tools.runs.tag_and_remove_runs import change_tags, read_tags
from jobrun.tools.sweep.axes import Axis, Point, restore_option_name, short_name, shown_value

_LONGEST_NAME = 64
_NOT_IN_NAMES = lazy_pattern(r"[^A-Za-z0-9_.-]+")
# With more points, each value of each axis is compiled once; every point is still validated.
_MOST_COMPILED = 100
_MOST_FAULTS = 20
Made = TypeVar("Made")

# Begins with a dot, as no job's name does: it is not taken for a folder of runs.
FOLDER = ".sweeps"
_REQUEST_NAME = "sweep.json"
_REQUEST_FORMAT = 1
_NOT_IN_TAGS = lazy_pattern(r"[^A-Za-z0-9_.=-]+")
_LONGEST_TAG = 64


class PlannedPoint(Struct, frozen=True):
    """One point of a sweep, with its job.

    Attributes:
        job: The name of its job.
        values: The value of each axis, typed as the spec types it.
        words: Of the command line: ``--set`` and what follows.
        digest: Of its spec, as a run records it.
        inputs: By which its runs are found; None for all runs of its job.
        overrides: Those of ``--set`` that make its spec of that of the sweep.
    """

    job: str
    values: Mapping[str, Any]
    words: tuple[str, ...]
    digest: str
    inputs: RunInputs | None = None
    overrides: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the label of a planned point of a sweep: ``lr=0.1 k=3``."""
        return " ".join(f"{axis}={shown_value(value)}" for axis, value in self.values.items())


class SweepBase(Struct, frozen=True):
    """The spec and overrides that all points of a sweep have in common.

    Attributes:
        spec: The file.
        values: Those of ``--values``.
        overrides: Those of ``--set``.
        name: Of the sweep; empty for the job's.
    """

    spec: str
    values: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    name: str = ""

    def load(self, overrides: Sequence[str] = ()) -> LoadedSpec:
        """Load the sweep's spec with the overrides of a point.

        Raises:
            SpecError: It is not valid.
        """
        return load_spec(self.spec, values=self.values, overrides=(*self.overrides, *overrides))

    def sweep_name(self) -> str:
        """Return the name of the designed sweep: the given one, or the name of its job.

        Raises:
            SpecError: The spec is needed for it, and is not valid.
        """
        return self.name or self.load().spec.name


class Design(Struct, frozen=True):
    """The plan of a sweep: its points, checked before any is started.

    Attributes:
        name: Of the sweep.
        points: In their order.
        metrics: What the job measures.
        best: The metric that decides which point is best, and whether ``min`` or ``max`` is; an
            empty metric when there is none.
    """

    name: str
    points: tuple[PlannedPoint, ...]
    metrics: tuple[str, ...]
    best: tuple[str, str]


def design_sweep(base: SweepBase, axes: Sequence[Axis], points: Sequence[Point]) -> Design:
    """Design a sweep: check the spec, every axis and every point, before any run starts.

    Args:
        base: What all points have in common.
        axes: Those of the command line.
        points: Of these axes.

    Raises:
        SpecError: The spec, or a value, is not valid; with all faults.
        UsageError: E403, the name is not usable.
    """
    samples = _samples(axes)
    if len(points) <= _MOST_COMPILED:
        samples = (*samples[:1], *points)
    job = _compiled_all(base, axes, samples[:_MOST_COMPILED])
    name = _usable_name(base.name or job.name)
    loaded = _loaded_all(base, axes, points)
    planned = (_planned(base, name, *pair) for pair in zip(points, loaded, strict=True))
    # Each once, though 1 and 1.0 may both have been written.
    distinct = {planned_point.job: planned_point for planned_point in planned}
    metrics = tuple(known for known, _ in job.metrics)
    return Design(name, tuple(distinct.values()), metrics, _best(job))


def _usable_name(name: str) -> str:
    """Check and return a new sweep's name, which must be usable as part of file names.

    Raises:
        UsageError: E403, it cannot.
    """
    if FILE_NAME.fullmatch(name) is None:
        mend = "write letters, digits and _ . -, such as --name first-try"
        raise UsageError.of("E403", f"'{name}' cannot be the name of a sweep", mend)
    return name


def _samples(axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Combine sample values of the axes to points that test a sweep's design before it starts.

    Not the spec without any: there may be params that get their only value here.
    """
    first = {axis.path: axis.samples[0] for axis in axes}
    others = ({axis.path: value} for axis in axes for value in axis.samples[1:])
    return tuple(tuple((first | other).items()) for other in ({}, *others))


def _compiled_all(base: SweepBase, axes: Sequence[Axis], points: Sequence[Point]) -> Job:
    """Compile the job of each point of a sweep's design; return the job of the first point."""
    return _collected(base, axes, points, lambda loaded: compile_job(loaded).job)[0]


def _loaded_all(base: SweepBase, axes: Sequence[Axis], points: Sequence[Point]) -> list[LoadedSpec]:
    return _collected(base, axes, points, lambda loaded: loaded)


def _collected(
    base: SweepBase,
    axes: Sequence[Axis],
    points: Sequence[Point],
    make: Callable[[LoadedSpec], Made],
) -> list[Made]:
    """Apply a function to the sweep's spec at each point, and raise the errors of all together.

    Raises:
        SpecError: Of any; with the faults of all of them, each at the option that is to blame.
    """
    options = {axis.path: axis.position for axis in axes}
    faults: list[Fault] = []
    collected: list[Made] = []
    for point in points:
        known = {
            f"--set #{number}": options[path]
            for number, (path, _) in enumerate(point, len(base.overrides) + 1)
        }
        try:
            collected.append(make(base.load([f"{path}={value}" for path, value in point])))
        except SpecError as error:
            faults += [restore_option_name(fault, known) for fault in error.faults]
            if len(faults) >= _MOST_FAULTS:
                break
    if faults:
        raise SpecError(*sorted(dict.fromkeys(faults), key=lambda fault: str(fault.where)))
    return collected


def _planned(base: SweepBase, name: str, point: Point, loaded: LoadedSpec) -> PlannedPoint:
    values = {
        short_name(path): loaded.spec.seed if path == "seed" else loaded.params[short_name(path)]
        for path, _ in point
    }
    job = _job_name(name, values)
    overrides = [*(f"{path}={value}" for path, value in point), f"name={job}"]
    # As it is with that name, without loading it a second time.
    named = replace(loaded, spec=loaded.spec.model_copy(update={"name": job}))
    words = [word for path in base.values for word in ("--values", path)]
    words += [word for text in (*base.overrides, *overrides) for word in ("--set", text)]
    inputs = known_inputs(loaded, loaded.spec.seed)
    return PlannedPoint(job, values, tuple(words), spec_digest(named), inputs, tuple(overrides))


def _job_name(sweep: str, values: Mapping[str, Any]) -> str:
    """Build the job name of a sweep's point: readable values, then a digest."""
    text = json.dumps([[axis, repr(value)] for axis, value in sorted(values.items())])
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    shown = _NOT_IN_NAMES.sub(
        "_", "-".join(f"{axis}{shown_value(values[axis])}" for axis in values)
    )
    room = _LONGEST_NAME - len(digest) - 2
    front = f"{sweep[: room // 2]}.{shown}"[:room]
    return f"{front}.{digest}"


def _best(job: Job) -> tuple[str, str]:
    """Choose the metric by which the design of a sweep ranks points, from the job's conditions."""
    for condition in job.stop:
        if isinstance(condition, StopWithoutImprovement):
            return condition.metric, condition.mode
    metric, mode, _ = job.checkpoint.keep_best
    if metric:
        return metric, mode
    return (job.metrics[0][0] if job.metrics else ""), "min"


class SweepRequest(Struct, frozen=True):
    """The part of a sweep's command line that decides which points there are.

    Attributes:
        grid: The axes as written.
        random: How many points are drawn; None for all.
        seed: For the random points.
    """

    grid: tuple[str, ...]
    random: int | None = None
    seed: int = 0


def sweep_folder(run_dir: Path, name: str) -> Path:
    """Return the folder that holds the record and the lock of a sweep."""
    return run_dir / FOLDER / name


def write_request(folder: Path, request: SweepRequest) -> None:
    """Write the record of a sweep's request to its folder, atomically.

    Raises:
        EnvironmentFaultError: Writing or deleting fails.
    """
    with disk_faults("E354", f"write {folder / _REQUEST_NAME}"):
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format": _REQUEST_FORMAT, **to_builtins(request)}
        write_json(folder / _REQUEST_NAME, content, indent=2)


def read_request(folder: Path) -> SweepRequest:
    """Read from a sweep's record the request with which the sweep was run last.

    Raises:
        UsageError: E438, there is no such sweep yet.
    """
    cause: Exception | None = None
    try:
        request = build(SweepRequest, read_json(folder / _REQUEST_NAME))
        if request.grid:
            return request
    except (OSError, ValueError) as error:
        cause = error
    raise UsageError.of(
        "E438",
        f"there is no sweep '{folder.name}' in {folder.parent.parent} yet",
        "give the values to try, such as --grid lr=0.1,0.01",
    ) from cause


def build_tags(sweep: str, point: PlannedPoint) -> tuple[str, ...]:
    """Build a run's tags from the sweep's design, such as ``sweep=walk`` and ``lr=0.1``."""
    pairs = [("sweep", sweep), *point.values.items()]
    return tuple(
        _NOT_IN_TAGS.sub("_", f"{name}={shown_value(value)}")[:_LONGEST_TAG]
        for name, value in pairs
    )


def tag_run(run: Path, sweep: str, point: PlannedPoint) -> None:
    """Tag a run with its sweep's name and the param values from the sweep's design."""
    wanted = build_tags(sweep, point)
    if set(wanted) <= set(read_tags(run)):
        return
    try:
        change_tags(run, wanted, ())
    except (JobrunError, OSError):
        # If the run directory cannot be written to, the run itself reports it.
        return
