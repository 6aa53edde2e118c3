"""A reader in a few words, wherever a job is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    Reader,
    ReadRecords,
    Source,
    ZipSource,
    readers_in,
)
from jobrun.graph.types import Job
from jobrun.graph.unparse import render_expr, render_text

_SHARES = {
    "none": "",
    "node": "each node reads a part of the rows; other nodes divide",
    "instance": "each instance reads a part of the rows; other instances divide",
}
_ANEW = {"epoch": "them anew with the next pass", "never": "anew what is left of the pass"}


def used_readers(job: Job) -> tuple[Reader, ...]:
    """Every reader that a task reads, by itself or beside others, in the order of first use."""
    found: dict[str, Reader] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                for reader in readers_in(task.read.reader):
                    found.setdefault(reader.name, reader)
    return tuple(found.values())


def reader_notes(reader: Reader) -> tuple[str, ...]:
    """What its records are, then how they come."""
    fields = ", ".join(
        one.name if one.member in ("", one.name) else f"{one.name} = {one.member}"
        for one in reader.fields
    )
    return (f"{fields} from {_source(reader.source)}", *_notes(reader))


def _source(source: Source) -> str:
    match source:
        case FileSource(path=path):
            return render_text(path)
        case BlobSource(values=values):
            return "blobs " + ", ".join(render_expr(value) for _, value in values)
        case CounterSource(start=start, stop=stop, step=step):
            end = "without end" if stop is None else f"to {stop}"
            return f"numbers from {start} {end}" + (f" by {step}" if step != 1 else "")
        case CallSource(target=target):
            return target
        case ZipSource(readers=readers):
            return " beside ".join(one.name for one in readers)
        case _:
            assert_never(source)


def _notes(reader: Reader) -> Iterator[str]:
    if reader.batch:
        yield f"batches of {reader.batch}" + (", full ones only" if reader.drop_last else "")
    if reader.shuffle:
        yield "shuffled by seed and pass"
    if reader.restart == "never":
        yield "goes on where the last epoch ended"
    if reader.limit is not None:
        yield f"at most {reader.limit} records an epoch"
    if reader.time_limit_s:
        yield f"at most {reader.time_limit_s:g} s an epoch"
    if reader.delay_s:
        yield f"{reader.delay_s:g} s before each record"
    if reader.shard != "none":
        yield f"{_SHARES[reader.shard]} {_ANEW[reader.restart]}"
