"""The functions of ``import jobrun``: load, prepare, run, resume, fork, inspect, text to steps.

The command line calls the same ones. Says nothing on a terminal, and imports no numpy by itself:
a job decides how many threads BLAS has, which counts when numpy is first imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from jobrun.compile.expressions import parse_expression, parse_statement
from jobrun.compile.handmade import complete
from jobrun.compile.job import Compiled, compile_job
from jobrun.core.errors import Fault, UsageError
from jobrun.core.events import Listener, ignore
from jobrun.graph.expr import Expr
from jobrun.graph.steps import NOWHERE, Net, Op, Step
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, PythonJob, refuse_python
from jobrun.runner.settings import Resume, RunOptions, RunResult
from jobrun.runner.start import choose_run, resume_run, run_with_policy
from jobrun.spec.load import LoadedSpec, load_spec

if TYPE_CHECKING:
    from jobrun.tools.inspection import Inspection

_DEFAULTS = RunOptions()
_RUNS = _DEFAULTS.run_dir


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that is checked, and what it was made from.

    Attributes:
        authored: The loaded spec, or the job that was built in Python.
        compiled: The job, and the compiler's warnings.
    """

    authored: Authored
    compiled: Compiled

    @property
    def job(self) -> Job:
        """The checked job."""
        return self.compiled.job

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """Of the loader and of the compiler."""
        loaded = self.authored.warnings if isinstance(self.authored, LoadedSpec) else ()
        return (*loaded, *self.compiled.warnings)


Source = str | os.PathLike[str] | LoadedSpec | Job | Prepared


def load(
    path: str | os.PathLike[str], *, values: Sequence[str] = (), overrides: Sequence[str] = ()
) -> LoadedSpec:
    """Read a spec and check it in itself.

    Args:
        path: The YAML file.
        values: Further files, merged over it; a later one wins.
        overrides: ``PATH=VALUE`` texts, as those of ``--set``.

    Raises:
        SpecError: It is not valid; with all faults.
        UsageError: An override is not ``PATH=VALUE``.
    """
    return load_spec(os.fspath(path), values=values, overrides=overrides)


def prepare(source: Source) -> Prepared:
    """Check a spec, or a job built in Python, as a whole. Executes nothing of it.

    Args:
        source: A spec's path, a loaded spec, a ``Job`` made by plain constructors, or what
            this function returned before.

    Raises:
        SpecError: It is not valid or does not compile; with all faults of the first stage
            that finds any.
    """
    match source:
        case Prepared():
            return source
        case Job():
            # The folder is taken now: later the process may work in another one.
            compiled = complete(source)
            return Prepared(PythonJob(compiled.job, os.path.abspath(source.folder)), compiled)  # noqa: PTH100
        case LoadedSpec():
            return Prepared(source, compile_job(source))
        case _:
            loaded = load(source)
            return Prepared(loaded, compile_job(loaded))


def run(
    source: Source,
    options: RunOptions = _DEFAULTS,
    *,
    resume: Resume = "",
    listener: Listener = ignore,
) -> RunResult:
    """Run a job to its end, in this process.

    Args:
        source: As of ``prepare``.
        options: Where runs live, and the limits of this invocation.
        resume: ``auto`` goes on with the newest run of the job's name, or starts one; ``must``
            needs one; ``never`` starts one; empty starts one unless the newest is unfinished.
        listener: Is told what happens, from the threads in which it happens.

    Returns:
        How it ended: its ``exit_code`` is that of the command line.

    Raises:
        UsageError: An option's value cannot be meant; or the newest run is unfinished.
        JobrunError: It did not end in good order; of the class that says why.
    """
    if resume not in get_args(Resume):
        known = ", ".join(repr(word) for word in get_args(Resume))
        raise UsageError.of("E403", f"'resume' cannot be {resume!r}", f"it is one of {known}")
    options = _usable(options)
    prepared = prepare(source)
    return run_with_policy(prepared.authored, prepared.job, options, listener, resume)


def resume_from(
    path: str | os.PathLike[str],
    source: Source | None = None,
    options: RunOptions = _DEFAULTS,
    *,
    listener: Listener = ignore,
) -> RunResult:
    """Continue a run from its newest good checkpoint, or from ``options.epoch``.

    Args:
        path: The run's directory; what names it below ``options.run_dir``, such as ``latest``;
            or its URL in an object store, from where it is brought there first.
        source: What to go on with. A run made from a spec has it recorded; one made from
            Python needs the job again, which is compared with the graph of the run.
        options: As of ``run``; also which drift is accepted.
        listener: As of ``run``.

    Raises:
        DriftError: The job is another one, in a way that would change results.
        CheckpointError: There is no usable checkpoint.
        JobrunError: As ``run``.
    """
    options = _usable(options)
    found = choose_run(os.fspath(path), options.run_dir, options.epoch)
    authored = None if source is None else prepare(source).authored
    return resume_run(found, options, listener, loaded=authored)


def fork_from(
    path: str | os.PathLike[str],
    source: Source | None = None,
    options: RunOptions = _DEFAULTS,
    *,
    blobs: Sequence[str] = (),
    listener: Listener = ignore,
) -> RunResult:
    """Start a new run from a checkpoint of another one, which stays as it is.

    Args:
        path: The other run, as of ``resume``.
        source: What the new run runs; None for what the other one ran, which needs to be given
            where that was made from Python.
        options: Of the new run; ``options.epoch`` says from which epoch, None from the newest
            good one.
        blobs: Patterns such as ``w*`` or ``node.w`` of what is taken over, after init has made
            the rest; the run then begins with epoch 1. Empty for the whole state, with which it
            begins after that epoch.
        listener: As of ``run``.

    Raises:
        CheckpointError: The other run has no such epoch, or it is damaged.
        UsageError: The epoch lacks state that the job has, or a pattern means nothing.
        JobrunError: As ``run``.
    """
    # Brings numpy in.
    from jobrun.runner.fork import Fork, fork_run  # noqa: PLC0415

    options = _usable(options)
    found = choose_run(os.fspath(path), options.run_dir, options.epoch)
    parent = Fork(found, options.epoch, tuple(blobs))
    authored = None if source is None else prepare(source).authored
    if authored is None:
        refuse_python(parent.run)
    return fork_run(parent, authored, replace(options, epoch=None), listener)


def inspect_checkpoint(
    target: str | os.PathLike[str], run_dir: str | os.PathLike[str] = _RUNS
) -> Inspection:
    """Look at a checkpoint, every byte of it verified.

    Args:
        target: A ``.h5`` file, an epoch's directory, a run, or ``RUN@EPOCH``; or the URL of a
            run in an object store.
        run_dir: Where runs are looked for by name.

    Raises:
        CheckpointError: It is not there, or damaged.
        UsageError: No run is called so.
    """
    # Brings numpy in.
    found: Inspection = import_module("jobrun.tools.inspection").inspect(
        os.fspath(target), Path(run_dir)
    )
    return found


def steps(*parts: str | Step) -> tuple[Step, ...]:
    """Steps of a task: statements of the spec language, and steps made by constructors.

    Statements next to each other become one net.

    Raises:
        SpecError: A statement cannot be read.

    >>> len(steps("x = 1", "x += 2"))
    1
    """
    found: list[Step] = []
    ops: list[Op] = []
    for part in parts:
        if isinstance(part, str):
            ops.append(parse_statement(part, NOWHERE, "", {}))
            continue
        if ops:
            found.append(Net(tuple(ops)))
            ops = []
        found.append(part)
    return (*found, Net(tuple(ops))) if ops else tuple(found)


def expression(text: str) -> Expr:
    """An expression of the spec language, for what a loop counts, a probe reads, an output is.

    Raises:
        SpecError: It cannot be read.

    >>> expression("x + 1")
    Binary(left=Name(name='x', at=0), operator='+', right=Const(value=1, ellipsis=False))
    """
    return parse_expression(text, NOWHERE, "", {})


def _usable(options: RunOptions) -> RunOptions:
    """The options, with a run directory given as text made a path.

    Raises:
        UsageError: E403, a limit is negative or no number.
    """
    for name in ("epochs", "max_epochs", "time_s", "grace_s"):
        value = getattr(options, name)
        if not value >= 0:
            raise UsageError.of(
                "E403", f"'{name}' cannot be {value!r}", "give a number, 0 for no limit"
            )
    return replace(options, run_dir=Path(options.run_dir))
