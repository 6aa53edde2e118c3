"""What the spec language has and this version does not carry out yet: one fault for each use."""

from __future__ import annotations

from jobrun.compile.faults import Faults, Place


def not_yet(faults: Faults, message: str, mend: str, place: Place) -> None:
    """Note that something written here is not carried out."""
    faults.error("E190", message, mend, place)
