"""``committed.jsonl``: what the user was told is saved. One checksummed line per epoch.

It is not what makes an epoch exist (the checkpoint's own rename does); it is what makes a
lost one noticed. Two kinds of lines: an epoch was acknowledged; the run went back to an
epoch, so that later ones no longer count.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobrun.core.errors import CheckpointError
from jobrun.runner.durable import disk_faults, read_plain, sync_directory, write_all

JOURNAL_NAME = "committed.jsonl"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a journal says.

    Attributes:
        epochs: Those acknowledged and not gone back behind, ascending.
        rewound_to: The epoch of the last step back; -1 when there was none.
        generation: That of the last step back; 0 when there was none.
        within: Epoch and number of records of the last that was acknowledged between two records
            of an epoch that is not acknowledged itself; (-1, 0) when there is none.
        torn_bytes: How much of an unfinished last line there is.
        good_bytes: Where the last whole line ends.
    """

    epochs: tuple[int, ...] = ()
    rewound_to: int = -1
    generation: int = 0
    torn_bytes: int = 0
    good_bytes: int = 0
    within: tuple[int, int] = (-1, 0)

    @property
    def newest(self) -> int:
        """The newest epoch the user was told of; -1 for none."""
        return self.epochs[-1] if self.epochs else -1


class Journal:
    """The journal of one run, opened for its runner."""

    def __init__(self, descriptor: int, run_id: str) -> None:
        self._descriptor = descriptor
        self._run_id = run_id

    @classmethod
    def open(cls, run: Path, run_id: str) -> Journal:
        """Open the journal to append, make its name durable, cut off a torn last line.

        Only while holding the run's lock.

        Raises:
            CheckpointError: It is damaged before its last line.
            EnvironmentFaultError: The disk says no.
        """
        said = read_journal(run, run_id)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with disk_faults(f"open {JOURNAL_NAME}"):
            descriptor = os.open(run / JOURNAL_NAME, flags, 0o644)
            if said.torn_bytes:
                os.ftruncate(descriptor, said.good_bytes)
            os.fsync(descriptor)
            sync_directory(run)
        return cls(descriptor, run_id)

    def acknowledge(self, epoch: int, generation: int) -> None:
        """Promise that ``epoch`` is there after any crash. Durable when this returns."""
        self._append({"kind": "epoch", "epoch": epoch, "generation": generation})

    def acknowledge_within(self, epoch: int, records: int, generation: int) -> None:
        """Promise what is saved after so many records of ``epoch``, until that is a whole one."""
        self._append(
            {"kind": "records", "epoch": epoch, "records": records, "generation": generation}
        )

    def rewind(self, epoch: int, generation: int) -> None:
        """Take back the promises about every epoch later than ``epoch``."""
        self._append({"kind": "rewind", "epoch": epoch, "generation": generation})

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, entry: dict[str, Any]) -> None:
        with disk_faults(f"write {JOURNAL_NAME}"):
            write_all(self._descriptor, _line({**entry, "run_id": self._run_id}))
            os.fsync(self._descriptor)


def read_journal(run: Path, run_id: str) -> Acknowledged:
    """What the run's journal says; nothing when there is none.

    Raises:
        CheckpointError: A line before the last is damaged, or a line is another run's.
        EnvironmentFaultError: It cannot be read.
    """
    with disk_faults(f"read {JOURNAL_NAME}"):
        try:
            data = read_plain(run / JOURNAL_NAME)
        except FileNotFoundError:
            return Acknowledged()
    return parse_journal(data, run_id)


def parse_journal(data: bytes, run_id: str) -> Acknowledged:
    """What the bytes of a journal say. A torn last line says nothing; see ``read_journal``."""
    lines = data.split(b"\n")
    tail = lines.pop()
    entries = [_entry(line, run_id) for line in lines]
    if entries and entries[-1] is None and not tail:
        # A last line that ends but does not check out is a write that reached the disk in part.
        tail = lines.pop() + b"\n"
        entries.pop()
    epochs: set[int] = set()
    rewound_to, generation = -1, 0
    within = (-1, 0)
    for number, entry in enumerate(entries, start=1):
        if entry is None:
            raise _damaged(number)
        if entry["kind"] == "rewind":
            rewound_to, generation = entry["epoch"], entry["generation"]
            epochs = {epoch for epoch in epochs if epoch <= rewound_to}
            within = within if within[0] <= rewound_to else (-1, 0)
        elif entry["kind"] == "records":
            within = (entry["epoch"], entry["records"])
        else:
            epochs.add(entry["epoch"])
            within = within if within[0] > entry["epoch"] else (-1, 0)
    good = len(data) - len(tail)
    return Acknowledged(tuple(sorted(epochs)), rewound_to, generation, len(tail), good, within)


def set_aside_journal(run: Path) -> None:
    """Put a damaged journal out of the way, under ``superseded/``, where it can be looked at."""
    aside = run / "superseded"
    with disk_faults(f"move {JOURNAL_NAME}"):
        aside.mkdir(exist_ok=True)
        taken = len(list(aside.glob(f"{JOURNAL_NAME}.*")))
        (run / JOURNAL_NAME).rename(aside / f"{JOURNAL_NAME}.{taken + 1}")
        sync_directory(aside)
        sync_directory(run)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps({**entry, "crc32": _checksum(entry)}, sort_keys=True).encode() + b"\n"


def _checksum(entry: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(entry, sort_keys=True).encode()):08x}"


def _entry(line: bytes, run_id: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.pop("crc32", None) != _checksum(entry):
        return None
    return entry if entry.get("run_id") == run_id else None


def _damaged(number: int) -> CheckpointError:
    return CheckpointError.of(
        "E356",
        f"line {number} of {JOURNAL_NAME} is damaged, or is another run's, "
        "so it cannot be told which epochs were saved",
        "name the epoch to continue from: jobrun resume RUN --epoch N",
    )
