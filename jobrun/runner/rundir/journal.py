"""Read and write which epochs of a run are acknowledged (``committed.jsonl``) and pinned.

The journal is not what makes an epoch exist (the checkpoint's own rename does); it is what makes a
lost one noticed. Two kinds of lines: an epoch was acknowledged; the run went back to an
epoch, so that later ones no longer count. The first kind also names the epochs that retention
deletes from then on, and says what ``metrics.jsonl`` holds: what is missing otherwise was lost.

Pins are epochs that a user keeps from deletion (``pins.json``). They are no part of a checkpoint,
so that nothing that happens to one can lose them.
"""

from __future__ import annotations

import bisect
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.files.disk import disk_faults, read_regular, sync_directory
from jobrun.core.files.json_files import (
    JournalFile,
    build,
    build_encoder,
    parse_json,
    read_json,
    write_json,
)

JOURNAL_NAME = "committed.jsonl"
# The most bytes: enough for some ten million epochs.
_MOST_BYTES = 1 << 30
_encode = build_encoder(sort_keys=True)

PINS_NAME = "pins.json"
_PINS_FORMAT = 1


class MetricsSpan(NamedTuple):
    """What the lines of some epochs in ``metrics.jsonl`` were when the last one was acknowledged.

    Attributes:
        after: The epoch before the first.
        last: The last epoch.
        lines: Their number.
        checksum: The sum of their CRC-32, modulo 2**32: lines may be in any order.
    """

    after: int
    last: int
    lines: int
    checksum: int


class JournalContents(Struct, frozen=True):
    """The contents of a journal.

    Attributes:
        epochs: Those acknowledged and not gone back behind, ascending.
        rewound_to: The epoch of the last step back; -1 when there was none.
        generation: That of the last step back; 0 when there was none.
        within: Epoch and number of records of the last that was acknowledged between two records
            of an epoch that is not acknowledged itself; (-1, 0) when there is none.
        torn_bytes: How much of an unfinished last line there is.
        good_bytes: Where the last whole line ends.
        deleted: The acknowledged epochs that retention or ``ckpt prune`` may have deleted.
        unrecorded: The newest epoch of a version that did not record what it deleted; -1 for none.
        metrics: The lines of ``metrics.jsonl``, by spans of epochs, ascending.
    """

    epochs: tuple[int, ...] = ()
    rewound_to: int = -1
    generation: int = 0
    torn_bytes: int = 0
    good_bytes: int = 0
    within: tuple[int, int] = (-1, 0)
    deleted: frozenset[int] = frozenset()
    unrecorded: int = -1
    metrics: tuple[MetricsSpan, ...] = ()

    @property
    def newest(self) -> int:
        """The newest epoch that the journal acknowledges; -1 for none."""
        return self.epochs[-1] if self.epochs else -1

    def find_lost(self, existing: Collection[int], after: int = -1) -> tuple[int, ...]:
        """List the acknowledged epochs after a given one that are gone and were not deleted.

        Args:
            existing: The epochs in the store.
            after: The epoch that is to be loaded.
        """
        there = {*existing, *self.deleted}
        known = max(after, self.unrecorded)
        return tuple(
            epoch
            for epoch in self.epochs[bisect.bisect_right(self.epochs, after) :]
            if epoch not in there and (epoch > known or epoch == self.newest)
        )


class Journal:
    """The journal of one run, opened for its runner."""

    def __init__(self, file: JournalFile, run_id: str) -> None:
        self._file = file
        self._run_id = run_id

    @classmethod
    def open(cls, run: Path, run_id: str) -> Journal:
        """Open a run's journal to append to it; cut off an incomplete last line.

        Only while holding the run's lock.

        Raises:
            CheckpointError: It is damaged before its last line.
            EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
        """
        contents = read_journal(run, run_id)
        with disk_faults("E354", f"open {run / JOURNAL_NAME}"):
            file = JournalFile(run / JOURNAL_NAME, contents.good_bytes)
        return cls(file, run_id)

    def acknowledge(
        self,
        epoch: int,
        generation: int,
        deletes: Collection[int] = (),
        metrics: MetricsSpan | None = None,
    ) -> None:
        """Append to the journal that ``epoch`` is saved; return when that is on the disk.

        Args:
            epoch: Which epoch.
            generation: The run's.
            deletes: The epochs that may be deleted from now on.
            metrics: The lines of ``metrics.jsonl`` up to this epoch, if they were counted.
        """
        entry: dict[str, Any] = {"kind": "epoch", "epoch": epoch, "generation": generation}
        if metrics is not None:
            entry["metrics"] = [metrics.after, metrics.lines, metrics.checksum]
        if deletes or metrics is None:
            # A line with neither key was written by a version that did not record deletions.
            entry["deletes"] = sorted(deletes)
        self._append(entry)

    def acknowledge_within(self, epoch: int, records: int, generation: int) -> None:
        """Append to the journal that a mid-epoch checkpoint, after some records, is saved."""
        self._append(
            {"kind": "records", "epoch": epoch, "records": records, "generation": generation}
        )

    def rewind(self, epoch: int, generation: int) -> None:
        """Append to the journal that epochs after ``epoch`` no longer count as saved."""
        self._append({"kind": "rewind", "epoch": epoch, "generation": generation})

    def close(self) -> None:
        """Close the journal's file; may be called twice."""
        self._file.close()

    def _append(self, entry: dict[str, Any]) -> None:
        with disk_faults("E354", f"write {JOURNAL_NAME}"):
            self._file.append(_line({**entry, "run_id": self._run_id}))


def read_journal(run: Path, run_id: str) -> JournalContents:
    """Read the run's journal; return an empty journal if the file is missing.

    Raises:
        CheckpointError: A line before the last is damaged, or a line is another run's.
        EnvironmentFaultError: It cannot be read.
    """
    with disk_faults("E354", f"read {run / JOURNAL_NAME}"):
        try:
            data = read_regular(run / JOURNAL_NAME, _MOST_BYTES)
        except FileNotFoundError:
            return JournalContents()
    return parse_journal(data, run_id)


def parse_journal(data: bytes, run_id: str) -> JournalContents:
    """Parse the lines of a run's journal; leave out an incomplete last line."""
    lines = data.split(b"\n")
    tail = lines.pop()
    entries = [_entry(line, run_id) for line in lines]
    if entries and entries[-1] is None and not tail:
        # A complete last line with a wrong checksum is a write that reached the disk only in part.
        tail = lines.pop() + b"\n"
        entries.pop()
    replay = _Replay()
    for number, entry in enumerate(entries, start=1):
        if entry is None:
            raise _damaged(number)
        replay.apply(entry)
    return replay.contents(torn_bytes=len(tail), good_bytes=len(data) - len(tail))


class _Replay:
    """What the entries of a journal say, applied one after the other."""

    def __init__(self) -> None:
        self._epochs: set[int] = set()
        self._deleted: set[int] = set()
        self._spans: list[MetricsSpan] = []
        self._rewound_to, self._generation, self._unrecorded = -1, 0, -1
        self._within = (-1, 0)

    def apply(self, entry: _Entry) -> None:
        """Take the next entry into account."""
        match entry.kind:
            case "rewind":
                self._rewind(entry.epoch, entry.generation)
            case "records":
                self._within = (entry.epoch, entry.records)
            case _:
                self._save(entry)

    def _rewind(self, epoch: int, generation: int) -> None:
        self._rewound_to, self._generation = epoch, generation
        self._epochs = {saved for saved in self._epochs if saved <= epoch}
        self._unrecorded = min(self._unrecorded, epoch)
        self._spans = [span for span in self._spans if span.last <= epoch]
        if self._within[0] > epoch:
            self._within = (-1, 0)

    def _save(self, entry: _Entry) -> None:
        self._epochs.add(entry.epoch)
        if self._within[0] <= entry.epoch:
            self._within = (-1, 0)
        self._deleted.discard(entry.epoch)
        self._deleted.update(entry.deletes or ())
        if entry.metrics is None:
            if entry.deletes is None:
                self._unrecorded = entry.epoch
            return
        after, number_of_lines, checksum = entry.metrics
        while self._spans and self._spans[-1].last > after:
            self._spans.pop()
        self._spans.append(MetricsSpan(after, entry.epoch, number_of_lines, checksum))

    def contents(self, *, torn_bytes: int, good_bytes: int) -> JournalContents:
        """Return what the journal says after all entries."""
        return JournalContents(
            tuple(sorted(self._epochs)),
            self._rewound_to,
            self._generation,
            torn_bytes=torn_bytes,
            good_bytes=good_bytes,
            within=self._within,
            deleted=frozenset(self._deleted),
            unrecorded=self._unrecorded,
            metrics=tuple(self._spans),
        )


def set_aside_journal(run: Path) -> None:
    """Move a damaged journal to ``superseded/``, where it can be looked at."""
    aside = run / "superseded"
    with disk_faults("E354", f"move {JOURNAL_NAME}"):
        aside.mkdir(exist_ok=True)
        taken = len(list(aside.glob(f"{JOURNAL_NAME}.*")))
        (run / JOURNAL_NAME).rename(aside / f"{JOURNAL_NAME}.{taken + 1}")
        sync_directory(aside)
        sync_directory(run)


def read_pins(run: Path) -> frozenset[int]:
    """Read from ``pins.json`` which epochs of a run its user has pinned against deletion.

    Raises:
        EnvironmentFaultError: E385, the file cannot be read: nothing may be deleted then.
    """
    path = f"{run}/{PINS_NAME}"
    try:
        # lstat first: this runs after each epoch, and most runs have no pins.
        os.lstat(path)
        pins = build(_Pins, read_json(path))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise _unreadable_pins(run, error.strerror or str(error)) from error
    except ValueError as error:
        raise _unreadable_pins(run, str(error)) from error
    if pins.format != _PINS_FORMAT or min(pins.pinned, default=0) < 0:
        raise _unreadable_pins(run, "it does not list epochs")
    return frozenset(pins.pinned)


def write_pins(run: Path, pinned: Collection[int]) -> None:
    """Write to ``pins.json``, durably, which epochs a user has pinned against deletion.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    content = {"format": _PINS_FORMAT, "pinned": sorted(pinned)}
    with disk_faults("E354", f"write {PINS_NAME}"):
        write_json(run / PINS_NAME, content)


def _line(entry: dict[str, Any]) -> bytes:
    text = _encode(entry)
    # It is the first key, as keys are sorted.
    return f'{{"crc32": "{_checksum(text)}", {text[1:]}\n'.encode()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class _Entry(Struct, frozen=True):
    kind: Literal["epoch", "records", "rewind"]
    epoch: int
    generation: int
    run_id: str
    records: int = 0
    deletes: tuple[int, ...] | None = None
    metrics: tuple[int, int, int] | None = None


def _entry(line: bytes, run_id: str) -> _Entry | None:
    try:
        content = parse_json(line)
        if not isinstance(content, dict):
            return None
        checksum = content.pop("crc32", None)
        if checksum != _checksum(_encode(content)):
            return None
        entry = build(_Entry, content)
    except ValueError:
        return None
    return entry if entry.run_id == run_id else None


def _damaged(number: int) -> CheckpointError:
    return CheckpointError.of(
        "E356",
        f"line {number} of {JOURNAL_NAME} is damaged, or is another run's, "
        "so it is not known which epochs were saved",
        "name the epoch to continue from: jobrun resume RUN --epoch N",
    )


class _Pins(Struct, frozen=True):
    format: int
    pinned: tuple[int, ...]


def _unreadable_pins(run: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E385",
        f"{run / PINS_NAME} cannot be read, so it is not known which epochs are pinned: {why}",
        "repair it, or delete it if nothing is pinned",
    )
