"""What the catalogue says of one error code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One entry.

    Attributes:
        title: The fault in a few words.
        explanation: Why it is one, and the ways to mend it; a few plain sentences.
        example: The smallest spec fragment or command that shows it.
    """

    title: str
    explanation: str
    example: str
