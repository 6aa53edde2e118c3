"""Provide the functions of ``import jobrun``: load, prepare, run, resume, fork, runs, inspect.

The command line calls the same ones. Says nothing on a terminal, and imports no numpy by itself:
a job decides how many threads BLAS has, which counts when numpy is first imported.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, get_args

from msgspec import Struct
from msgspec.structs import replace

from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.compile.pipeline import Compiled, compile_job, complete
from jobrun.core.errors import Fault, UsageError
from jobrun.core.events import Event, Listener, NodeReplaced, Noted, ignore
from jobrun.core.notify_target import News, NotifyTarget, news_of_exit
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Expr
from jobrun.graph.steps import Net, Op, Step
from jobrun.graph.types import Job
from jobrun.runner.options import Resume, RunOptions, RunResult
from jobrun.spec.load import LoadedSpec, load_spec

if TYPE_CHECKING:
    from jobrun.runner.identity.recorded_job import Authored
    from jobrun.tools.inspection import Inspection
    from jobrun.tools.stored_run import StoredRuns

_DEFAULTS = RunOptions()
_RUNS = _DEFAULTS.run_dir
# Enough for three attempts of five seconds at each of a few targets of notifications.
_LONGEST_SENDING_S = 60.0
_INTERRUPTED, _BUG = 130, 70


class Prepared(Struct, frozen=True):
    """A job that is checked, and what it was made from.

    Attributes:
        authored: The loaded spec, or the job that was built in Python.
        compiled: The job, and the compiler's warnings.
    """

    authored: Authored
    compiled: Compiled

    @property
    def job(self) -> Job:
        """The checked job that ``jobrun.prepare()`` returns."""
        return self.compiled.job

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """The loader's and compiler's warnings about the job that ``jobrun.prepare()`` checked."""
        loaded = self.authored.warnings if isinstance(self.authored, LoadedSpec) else ()
        return (*loaded, *self.compiled.warnings)

    def warnings_in(self, session: str) -> tuple[Fault, ...]:
        """Return those warnings of ``jobrun.prepare()`` that apply to a kind of session."""
        on_cluster = session.partition(":")[0] == "ray"
        return tuple(
            warning for warning in self.warnings if not (on_cluster and warning.code == "W135")
        )


Source = str | os.PathLike[str] | LoadedSpec | Job | Prepared


def load(
    path: str | os.PathLike[str], *, values: Sequence[str] = (), overrides: Sequence[str] = ()
) -> LoadedSpec:
    """Load a YAML spec from Python and validate it, without compiling it.

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
    """Check a spec, or a job built in Python, as a whole, without running any of it.

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
            from jobrun.runner.identity.recorded_job import PythonJob  # noqa: PLC0415

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
    """Run a job from Python to its end, in this process.

    Args:
        source: As of ``prepare``.
        options: Where runs live, and the limits of this invocation.
        resume: ``auto`` continues the newest run of the job's name with the same params and seed,
            or starts one; ``must`` needs one; ``never`` starts one; empty starts one unless the
            newest is unfinished.
        listener: Called with each event, in the thread in which it happens.

    Returns:
        How it ended: its ``exit_code`` is that of the command line.

    Raises:
        UsageError: An option's value is not valid; or the newest run is unfinished.
        JobrunError: It did not end in good order; of the class that says why.
    """
    # Imported late, here and below: checking a spec must not import all that runs it.
    from jobrun.runner.start_or_resume import run_with_policy  # noqa: PLC0415

    if resume not in get_args(Resume):
        known = ", ".join(repr(word) for word in get_args(Resume))
        raise UsageError.of("E403", f"'resume' cannot be {resume!r}", f"it is one of {known}")
    options = _usable(options)
    prepared = prepare(source)
    return _with_news(
        options,
        listener,
        lambda usable, listen: run_with_policy(
            prepared.authored, prepared.job, usable, listen, resume
        ),
    )


def resume_from(
    path: str | os.PathLike[str],
    source: Source | None = None,
    options: RunOptions = _DEFAULTS,
    *,
    listener: Listener = ignore,
) -> RunResult:
    """Continue a run from Python at its newest good epoch, or at ``options.epoch``.

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
    from jobrun.runner.start_or_resume import choose_run, resume_run  # noqa: PLC0415

    options = _usable(options)
    chosen = choose_run(os.fspath(path), options.run_dir, options.epoch, listener)
    authored = None if source is None else prepare(source).authored
    return _with_news(
        options,
        listener,
        lambda usable, listen: resume_run(chosen, usable, listen, loaded=authored),
    )


def fork_from(
    path: str | os.PathLike[str],
    source: Source | None = None,
    options: RunOptions = _DEFAULTS,
    *,
    blobs: Sequence[str] = (),
    listener: Listener = ignore,
) -> RunResult:
    """Start a new run from Python with the checkpoint of another run, which stays as it is.

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
    # Imports numpy.
    from jobrun.runner.fork import Fork, fork_run  # noqa: PLC0415
    from jobrun.runner.identity.recorded_job import require_spec  # noqa: PLC0415
    from jobrun.runner.start_or_resume import choose_run  # noqa: PLC0415

    options = _usable(options)
    chosen = choose_run(os.fspath(path), options.run_dir, options.epoch, listener)
    parent = Fork(chosen, options.epoch, tuple(blobs))
    authored = None if source is None else prepare(source).authored
    if authored is None:
        require_spec(parent.run)
    return _with_news(
        replace(options, epoch=None),
        listener,
        lambda usable, listen: fork_run(parent, authored, usable, listen),
    )


def inspect_checkpoint(
    target: str | os.PathLike[str], run_dir: str | os.PathLike[str] = _RUNS
) -> Inspection:
    """Verify a checkpoint from Python, every byte of it, and return what it holds.

    Args:
        target: A ``.h5`` file, an epoch's directory, a run, or ``RUN@EPOCH``; or the URL of a
            run in an object store.
        run_dir: Where runs are looked for by name.

    Raises:
        CheckpointError: It is not there, or damaged.
        UsageError: No run is called so.
    """
    # Imports numpy.
    inspection: Inspection = import_module("jobrun.tools.inspection").inspect(
        os.fspath(target), Path(run_dir)
    )
    return inspection


def list_stored_runs(run_dir: str | os.PathLike[str] = _RUNS, job: str = "") -> StoredRuns:
    """List the stored runs of a directory for use in Python.

    Args:
        run_dir: The directory of the runs.
        job: Only the runs of this job; empty for all.

    Raises:
        UsageError: E351, there is no such directory, or no run of that job.

    >>> import jobrun, tempfile
    >>> job = jobrun.Job(
    ...     "count",
    ...     jobrun.Cluster((jobrun.Node("local"),)),
    ...     init=jobrun.TaskGroup("init", (jobrun.Task("start", "local", jobrun.steps("x = 0")),)),
    ...     epoch=jobrun.TaskGroup("epoch", (jobrun.Task("add", "local", jobrun.steps("x += 2")),)),
    ...     stop=(jobrun.StopAfterEpochs(3),),
    ... )
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = jobrun.run(job, jobrun.RunOptions(run_dir=folder.name))
    >>> runs = jobrun.runs(folder.name)
    >>> [run.status().status for run in runs]
    ['finished']
    >>> run = runs["latest"]
    >>> run.job, run.epochs[-1], run.blobs()["x"]
    ('count', 3, 6)
    >>> folder.cleanup()
    """
    # Imports numpy.
    from jobrun.tools.stored_run import StoredRuns  # noqa: PLC0415

    return StoredRuns(Path(run_dir), job)


def steps(*parts: str | Step) -> tuple[Step, ...]:
    """Make the steps of a task built in Python from statements and ``Step`` objects.

    Statements next to each other become one net.

    Raises:
        SpecError: A statement cannot be read.

    >>> len(steps("x = 1", "x += 2"))
    1
    """
    built: list[Step] = []
    ops: list[Op] = []
    for part in parts:
        if isinstance(part, str):
            ops.append(parse_statement(part, NOWHERE, "", {}))
            continue
        if ops:
            built.append(Net(tuple(ops)))
            ops = []
        built.append(part)
    return (*built, Net(tuple(ops))) if ops else tuple(built)


def expression(text: str) -> Expr:
    """Parse an expression of the spec language for a job built in Python.

    Raises:
        SpecError: It cannot be read.

    >>> expression("x + 1")
    Binary(left=Name(name='x', at=0), operator='+', right=Const(value=1, ellipsis=False))
    """
    return parse_expression(text, NOWHERE, "", {})


def _with_news(
    options: RunOptions, listener: Listener, act: Callable[[RunOptions, Listener], RunResult]
) -> RunResult:
    """Run a job of the Python API; send its notifications if ``options`` has no sender."""
    if options.announce is not None:
        return act(options, listener)
    with _PythonNews(listener) as news:
        result = act(replace(options, announce=news.announce), news.listen)
        news.exit_code = result.exit_code
    return result


class _PythonNews:
    """Sends news of the run within the context, the last when that ends, however it does.

    No other process watches a run that was started from Python: what ends the process at once
    (``os._exit``, SIGKILL, a crash) sends no news.

    Args:
        listener: The caller's; gets all events, and a warning for each failure to send.

    Attributes:
        exit_code: How the run ended, where it did without an exception.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._targets: tuple[NotifyTarget, ...] = ()
        self._run = Path()
        self._senders: list[threading.Thread] = []
        self._failures: list[str] = []
        self.exit_code = 0

    def announce(self, targets: tuple[NotifyTarget, ...], run: str, stuck: str) -> None:
        """Remember the notify targets of a run started from Python; notify them if it is stuck."""
        self._targets, self._run = targets, Path(run)
        if stuck:
            self._start("no_progress", None, stuck)

    def listen(self, event: Event) -> None:
        """Pass an event to the Python API's listener; notify the targets if a node was lost."""
        self._listener(event)
        if isinstance(event, NodeReplaced):
            self._start("node_lost", None, f"node '{event.node}' was lost")

    def __enter__(self) -> _PythonNews:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        code = self.exit_code
        if error is not None:
            unknown = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _BUG
            code = getattr(error, "exit_code", unknown)
        self._start(news_of_exit(code), code, "")
        deadline = time.monotonic() + _LONGEST_SENDING_S
        for sender in self._senders:
            sender.join(max(0.0, deadline - time.monotonic()))
        for words in self._failures:
            self._listener(Noted(words, "warning"))

    def _start(self, news: News, exit_code: int | None, detail: str) -> None:
        """Start a thread that sends a notification of the Python API to all its targets."""
        if any(news in target.on for target in self._targets):
            sender = threading.Thread(
                target=self._send, args=(news, exit_code, detail), name="jobrun-news", daemon=True
            )
            try:
                sender.start()
            except RuntimeError as error:
                # The system's limits: that must not hide how the run has ended.
                self._failures.append(f"no notification was sent: {error}")
            else:
                self._senders.append(sender)

    def _send(self, news: News, exit_code: int | None, detail: str) -> None:
        # Brings an HTTP client in, for which most runs have no use.
        from jobrun.tools.notify import build_message, send_all  # noqa: PLC0415

        message = build_message(self._run, news, exit_code, detail)
        self._failures += send_all(self._targets, message)


def _usable(options: RunOptions) -> RunOptions:
    """Check the limits in the ``RunOptions`` given to the Python API; return the options.

    Their ``run_dir`` becomes a ``Path``.

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
