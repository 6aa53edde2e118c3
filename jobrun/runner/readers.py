"""Looks at the files of readers before anything runs: lengths, and shares of them. Headers only.

That files and members are there is looked at where that of loads is (``preflight``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jobrun.core.errors import Fault
from jobrun.graph.data import FileSource, Reader, ReadRecords, readers_in
from jobrun.graph.types import Job
from jobrun.runner.fingerprints import plain_text
from jobrun.runner.memory import member_header


def reader_faults(job: Job, folder: Path) -> tuple[Fault, ...]:
    """What the headers of files say that no run of their readers could get over.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
    """
    faults: list[Fault] = []
    for reader, shares in _shares(job).items():
        if isinstance(reader.source, FileSource):
            faults += _file_faults(reader, reader.source, shares, folder)
    return tuple(faults)


def _shares(job: Job) -> dict[Reader, int]:
    """Each reader, and into how many parts its rows are divided at most."""
    found: dict[Reader, int] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                by_instance = task.read.reader.shard == "instance"
                parts = task.read.parts * (task.instances if by_instance else 1)
                for reader in readers_in(task.read.reader):
                    found[reader] = max(found.get(reader, 1), parts)
    return found


def _file_faults(reader: Reader, source: FileSource, shares: int, folder: Path) -> Iterator[Fault]:
    text = plain_text(source.path)
    if text is None:
        return
    path = Path(os.path.normpath(folder / source.folder / text))
    lengths: dict[str, int] = {}
    for one in reader.fields:
        header = member_header(path, one.member)
        if header is not None and not header[1]:
            message = f"'{one.member or text}' is a single value and has no rows"
            yield _fault("E288", message, "load it in init instead", reader)
        elif header is not None:
            lengths[one.member] = header[1][0]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{count} of '{member}'" for member, count in lengths.items())
        message = f"the members of {text} differ in length: {shown}"
        mend = "read them with readers of their own, or make them one length"
        yield _fault("E288", message, mend, reader)
    for count in set(lengths.values()):
        if not count:
            mend = "see how it was made, or take the reader out"
            yield _fault("E232", f"{text} has no rows to read", mend, reader)
        elif count < shares:
            message = f"reader '{reader.name}' has {count} rows for {shares} shares"
            mend = "use fewer nodes or instances, or leave 'shard' out"
            yield _fault("E232", message, mend, reader)


def _fault(code: str, message: str, mend: str, reader: Reader) -> Fault:
    return Fault(code, message, mend, reader.origin, reader.path)
