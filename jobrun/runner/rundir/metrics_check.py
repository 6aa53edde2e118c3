"""Compare ``metrics.jsonl`` with what the journal says it held when epochs were acknowledged."""

from __future__ import annotations

import bisect
import itertools
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from jobrun.core.files.disk import open_regular
from jobrun.core.files.json_files import read_lines
from jobrun.runner.rundir.journal import MetricsSpan
from jobrun.runner.rundir.logs import epoch_of_line
from jobrun.runner.rundir.run_directories import METRICS_NAME

_CHECKSUM_RANGE = 1 << 32
_PIECE_BYTES = 1 << 20


class MetricsGap(Struct, frozen=True):
    """Epochs of which ``metrics.jsonl`` has lost lines, or has others than it had.

    Attributes:
        first: The first epoch.
        last: The last epoch.
        lines: How many lines there were.
        missing: How many of these are gone; 0 where only their bytes differ.
    """

    first: int
    last: int
    lines: int
    missing: int

    def __add__(self, other: MetricsGap) -> MetricsGap:
        """Join two gaps of which the second begins where the first ends."""
        lines, missing = self.lines + other.lines, self.missing + other.missing
        return MetricsGap(self.first, other.last, lines, missing)

    def __str__(self) -> str:
        epochs = (
            f"epoch {self.last}" if self.first == self.last else f"epochs {self.first}-{self.last}"
        )
        if not self.missing:
            return f"lines of {epochs} in {METRICS_NAME} were changed since they were saved"
        are = "is" if self.missing == 1 else "are"
        return (
            f"{self.missing} of the {self.lines} lines of {epochs} that {METRICS_NAME} had when "
            f"they were saved {are} gone"
        )


def checksum_line(line: bytes) -> int:
    """Return what a line of ``metrics.jsonl`` adds to a span's checksum; order does not count."""
    return zlib.crc32(line.rstrip(b"\n"))


def has_lost_metrics(run: Path, spans: tuple[MetricsSpan, ...]) -> bool:
    """Return whether ``metrics.jsonl`` has fewer lines than it had; fast, and not exact.

    Raises:
        OSError: The file is no regular file, or cannot be read.
    """
    try:
        with os.fdopen(open_regular(run / METRICS_NAME), "rb") as file:
            pieces = iter(lambda: file.read(_PIECE_BYTES), b"")
            # No valid line is as long as a piece: stop, the file could have a hole of a terabyte
            # here.
            lines = sum(itertools.takewhile(bool, (piece.count(b"\n") for piece in pieces)))
    except FileNotFoundError:
        lines = 0
    return lines < sum(span.lines for span in spans)


def find_metrics_gaps(run: Path, spans: tuple[MetricsSpan, ...]) -> tuple[MetricsGap, ...]:
    """Find the epochs of which ``metrics.jsonl`` has lost lines since they were acknowledged.

    Raises:
        OSError: The file is no regular file, or cannot be read.
    """
    if not spans:
        return ()
    try:
        counted = _count_lines(read_lines(run / METRICS_NAME), spans)
    except FileNotFoundError:
        counted = [(0, 0)] * len(spans)
    gaps: list[MetricsGap] = []
    for span, (lines, checksum) in zip(spans, counted, strict=True):
        if (lines, checksum) == (span.lines, span.checksum):
            continue
        gap = MetricsGap(span.after + 1, span.last, span.lines, span.lines - lines)
        if gaps and gaps[-1].last == gap.first - 1:
            gap = gaps.pop() + gap
        gaps.append(gap)
    return tuple(gaps)


def sum_lines(run: Path, epoch: int) -> tuple[int, int]:
    """Count the lines of ``metrics.jsonl`` up to an epoch, and add up their checksums."""
    try:
        lines = [line for line in read_lines(run / METRICS_NAME) if epoch_of_line(line) <= epoch]
    except FileNotFoundError:
        lines = []
    return len(lines), sum(map(checksum_line, lines)) % _CHECKSUM_RANGE


def _count_lines(lines: Iterable[bytes], spans: tuple[MetricsSpan, ...]) -> list[tuple[int, int]]:
    """Count the lines of each span of epochs, and add up their checksums.

    Only as many as there were: what ``exit`` measures has the number of the last epoch, too, and
    comes after it was acknowledged.
    """
    last_epochs = [span.last for span in spans]
    counts, checksums = [0] * len(spans), [0] * len(spans)
    known: float = -1
    at = len(spans)
    for line in lines:
        epoch = epoch_of_line(line)
        if epoch != known:
            known, at = epoch, bisect.bisect_left(last_epochs, epoch)
            if at < len(spans) and epoch <= spans[at].after:
                at = len(spans)
        if at < len(spans) and counts[at] < spans[at].lines:
            counts[at] += 1
            checksums[at] += checksum_line(line)
    return [(count, sum_ % _CHECKSUM_RANGE) for count, sum_ in zip(counts, checksums, strict=True)]
