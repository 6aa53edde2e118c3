"""What a checkpoint holds, with what can be drawn of each blob. Draws nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from jobrun.checkpoint.hdf5 import BlobFacts, FileFacts
from jobrun.tools.inspection import Inspection
from jobrun.tools.report.histogram import Histogram, histogram
from jobrun.tools.report.pictures import Picture, picture, tiles

# So many blobs get a drawing; of the others a line is enough, or a page grows without end.
MOST_DRAWN = 120


@dataclass(frozen=True, slots=True)
class Drawn:
    """A blob of a node.

    Attributes:
        histogram: None for what is no array of numbers, and beyond ``MOST_DRAWN``.
        pictures: Of a matrix itself, and of its rows where they may be pictures.
    """

    node: str
    facts: BlobFacts
    histogram: Histogram | None = None
    pictures: tuple[Picture, ...] = ()


def drawn_blobs(
    found: Inspection,
    files: tuple[FileFacts, ...] = (),
    most: tuple[int, int] = (160, 160),
    most_drawn: int = MOST_DRAWN,
) -> tuple[Drawn, ...]:
    """All blobs, in the order of the nodes.

    Args:
        found: The checkpoint.
        files: Only these; empty for all.
        most: How many rows and columns a picture may have.
        most_drawn: How many blobs get a drawing.
    """
    blobs = [(file.header.node, blob) for file in files or found.files for blob in file.blobs]
    return tuple(
        _drawn(node, blob, most) if number < most_drawn else Drawn(node, blob)
        for number, (node, blob) in enumerate(blobs)
    )


def _drawn(node: str, blob: BlobFacts, most: tuple[int, int]) -> Drawn:
    both = (picture(blob.value, most), tiles(blob.value))
    return Drawn(node, blob, histogram(blob.value), tuple(one for one in both if one))
