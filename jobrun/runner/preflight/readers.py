"""Check the files of readers by their headers: row counts, and the shares of them.

That files and members are there is looked at where that of loads is (``preflight``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jobrun.core.codes import Code
from jobrun.core.errors import Fault
from jobrun.formats.errors import UNEVEN_MEND
from jobrun.graph.readers import FileSource, Reader, ReadRecords, readers_in
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_text
from jobrun.runner.preflight.memory import read_member_header


def check_readers(job: Job, folder: Path) -> tuple[Fault, ...]:
    """Collect faults of readers that the headers of their files already show.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
    """
    faults: list[Fault] = []
    for reader, shares in _count_shares(job).items():
        if isinstance(reader.source, FileSource):
            faults += _check_file(reader, reader.source, shares, folder)
    return tuple(faults)


def _count_shares(job: Job) -> dict[Reader, int]:
    """Return each reader whose file is checked, with the most shares its rows have."""
    found: dict[Reader, int] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                by_instance = task.read.reader.shard == "instance"
                parts = task.read.parts * (task.instances if by_instance else 1)
                for reader in readers_in(task.read.reader):
                    found[reader] = max(found.get(reader, 1), parts)
    return found


def _check_file(reader: Reader, source: FileSource, shares: int, folder: Path) -> Iterator[Fault]:
    text = literal_text(source.path)
    if text is None:
        return
    path = Path(os.path.normpath(folder / source.folder / text))
    lengths: dict[str, int] = {}
    for one in reader.fields:
        for member in one.members:
            header = read_member_header(path, member)
            if header is not None and not header[1]:
                message = f"'{member or text}' is a single value and has no rows"
                yield _fault("E288", message, "load it in init instead", reader)
            elif header is not None and member == one.lengths and not _may_be_lengths(*header):
                message = (
                    f"'{member}' of {text} holds the lengths of '{one.name}', and is {header[0]} "
                    f"of shape {header[1]}"
                )
                yield _fault("E514", message, "make them integers, one for each record", reader)
            elif header is not None and (one.lengths is None or member == one.lengths):
                # Of the values it is known when the lengths have been read.
                lengths[member] = header[1][0]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{count} of '{member}'" for member, count in lengths.items())
        message = f"the members of {text} differ in length: {shown}"
        yield _fault("E288", message, UNEVEN_MEND, reader)
    for count in set(lengths.values()):
        if not count:
            mend = "see how it was made, or take the reader out"
            yield _fault("E232", f"{text} has no rows to read", mend, reader)
        elif count < shares:
            message = f"reader '{reader.name}' has {count} rows for {shares} shares"
            mend = "use fewer nodes or instances, or leave 'shard' out"
            yield _fault("E232", message, mend, reader)


def _may_be_lengths(dtype: str, shape: tuple[int, ...]) -> bool:
    return len(shape) == 1 and dtype[1:2] in {"i", "u"}


def _fault(code: Code, message: str, mend: str, reader: Reader) -> Fault:
    return Fault(code, message, mend, reader.origin, reader.path)
