"""List completion candidates for a shell: names of runs, tasks, metrics, blobs, params, specs.

Types of arguments that take any text and know what would be right. A completion never fails
and never writes: what cannot be found is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobrun.core.errors import JobrunError
from jobrun.core.text.terminal_text import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _TextType = click.ParamType[str]
else:
    # It is generic for type checkers only, in the oldest click that is allowed.
    _TextType = click.ParamType

Offer = Callable[[click.Context, str], Iterable[tuple[str, str]]]
_MOST = 200


class CompletedText(_TextType):
    """Text for which ``offer`` knows completions.

    Args:
        name: What the text is.
        offer: Gives words that may be meant, each with a few words about it.
    """

    def __init__(self, name: str, offer: Offer) -> None:
        self.name = name
        self._offer = offer

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept any text as an option's value, not only its completion candidates."""
        del param, ctx
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """List the completion candidates of an option that begin with the incomplete word."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - at a tab only

        del param
        items: list[CompletionItem[str]] = []
        with suppress(JobrunError, OSError, ValueError):
            for word, about in self._offer(ctx, incomplete):
                # A shell reads candidates by lines, and shows them as they are.
                if word.startswith(incomplete) and word.isprintable():
                    items.append(CompletionItem(word, help=visible(about) or None))
                if len(items) == _MOST:
                    break
        return items


def _runs(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """List the completion candidates of RUN: names of jobs and runs; after a slash, run paths."""
    from jobrun.tools.runs.summarise_runs import NewestFirst  # noqa: PLC0415 - only when asked

    listed = NewestFirst(run_dir_of(ctx))
    if "/" in incomplete:
        by_path = listed.runs(lambda path: path.startswith(incomplete))
        yield from ((run.path, run.status) for run in by_path)
        return
    newest = list(listed.newest_of_jobs())
    if newest:
        yield "latest", newest[0].path
    yield from ((run.job, "its newest run") for run in newest)
    by_words = listed.runs(lambda path: _words_in(path).startswith(incomplete))
    yield from ((_words_in(run.path), f"{run.job}, {run.status}") for run in by_words)


def _words_in(path: str) -> str:
    """Return the words in the name of a run that are completion candidates: ``brisk-heron``."""
    return path.rpartition("/")[2].split("-", 2)[-1]


def _jobs(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    from jobrun.tools.runs.summarise_runs import NewestFirst  # noqa: PLC0415

    del incomplete
    yield from ((run.job, "") for run in NewestFirst(run_dir_of(ctx)).newest_of_jobs())


def _runs_and_epochs(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    name, at, _ = incomplete.rpartition("@")
    if not at:
        yield from _runs(ctx, incomplete)
        return
    from jobrun.runner.rundir.run_directories import find_run  # noqa: PLC0415

    folder = find_run(name, run_dir_of(ctx)).path / "checkpoints"
    names = (path.name.removeprefix("epoch-") for path in folder.glob("epoch-*"))
    numbers = sorted((int(text) for text in names if text.isdecimal()), reverse=True)
    yield from ((f"{name}@{number}", "") for number in numbers)


def _tasks(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    del incomplete
    logs = _run(ctx) / "logs"
    yield from ((path.stem, "") for path in sorted(logs.glob("*.log")))


def _metrics(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    from jobrun.tools.runs.metrics import read_metrics  # noqa: PLC0415

    del incomplete
    yield from ((name, "") for name in read_metrics(_run(ctx)).names)


def _settings(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """List the completion candidates of ``--set``: the params of the spec on the command line."""
    del incomplete
    # Arguments are not parsed yet where a command line breaks off behind an option.
    named = (ctx.params.get("spec"), *(ctx.params.get("specs") or ()), *ctx.args)
    spec = next((word for word in named if word), "")
    for name, declared in _section(spec, "params").items():
        value = declared.get("default", "") if isinstance(declared, dict) else declared
        yield f"params.{name}=", f"{value}"
    yield from ((word, "") for word in ("seed=", "name=", "blas_threads="))


def _axes(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """List the completion candidates of a sweep's axis: the params of the spec, and ``seed``."""
    for word, about in _settings(ctx, incomplete):
        if word.startswith("params."):
            yield word.removeprefix("params."), about
    yield "seed=", ""


def _metrics_of_spec(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    del incomplete
    names = _section(ctx.params.get("spec") or next(iter(ctx.args), ""), "metrics")
    yield from ((name, "lower is better") for name in names)
    yield from ((f"max:{name}", "higher is better") for name in names)


def _section(spec: str, key: str) -> dict[str, Any]:
    """Read a section of a spec, such as ``params``, whose keys are completion candidates."""
    from jobrun.spec.resolve.include import read_unchecked  # noqa: PLC0415

    section = read_unchecked(spec).get(key) if spec else None
    return section if isinstance(section, dict) else {}


def _blobs(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    from jobrun.tools.inspection import inspect  # noqa: PLC0415

    del incomplete
    inspection = inspect(ctx.params.get("target") or "latest", run_dir_of(ctx))
    yield from (
        (blob.name, f"{blob.dtype} of {file.header.node}")
        for file in inspection.files
        for blob in file.blobs
    )


def _specs(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """List YAML files, and folders, as completion candidates for SPEC on a command line."""
    del ctx
    before, slash, _ = incomplete.rpartition("/")
    prefix = before + slash
    for path in sorted(Path(prefix).iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield f"{prefix}{path.name}/", ""
        elif path.suffix in (".yaml", ".yml"):
            yield f"{prefix}{path.name}", ""


def _templates(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    from jobrun.tools.templates import TEMPLATES  # noqa: PLC0415

    del ctx, incomplete
    yield from TEMPLATES.items()


def run_dir_of(ctx: click.Context) -> Path:
    """Return the ``--run-dir`` of a command line, in which to look for completion candidates."""
    return Path(ctx.params.get("run_dir") or "runs")


def _run(ctx: click.Context) -> Path:
    from jobrun.runner.rundir.run_directories import find_run  # noqa: PLC0415

    return find_run(ctx.params.get("run") or "latest", run_dir_of(ctx)).path


RUN = CompletedText("run", _runs)
RUN_AT_EPOCH = CompletedText("run", _runs_and_epochs)
JOB = CompletedText("job", _jobs)
TASK = CompletedText("task", _tasks)
METRIC = CompletedText("metric", _metrics)
BLOB = CompletedText("blob", _blobs)
SETTING = CompletedText("setting", _settings)
AXIS = CompletedText("axis", _axes)
METRIC_OF_SPEC = CompletedText("metric", _metrics_of_spec)
SPEC = CompletedText("spec", _specs)
TEMPLATE = CompletedText("template", _templates)
