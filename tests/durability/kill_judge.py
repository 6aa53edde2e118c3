"""A process that judges runs it has no part in, with h5py and json alone. Run as a module.

It reads a line with a question, and answers with a line of words; an empty one says that all is
well. What it knows of an unbroken run, it has read once.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

from tests.support.run_judge import Reference, acknowledged, artifacts, reference_of, wrong
from tests.support.stored_runs import blobs, epochs


@cache
def _reference(run: str) -> Reference:
    return reference_of(Path(run))


def lost(reference: str, folder: str, retained: int) -> str:
    """What a killed run has lost, or shows half."""
    known = _reference(reference)
    faults = [
        words
        for run in sorted(Path(folder).glob("*/*"))
        if (run / "run.json").is_file() and not run.is_symlink()
        for words in wrong(run, known, count_kept=retained)
    ]
    return "; ".join(faults)


def unlike(reference: str, unbroken: str, run: str) -> str:
    """In what a run that has ended is not as it should be.

    Args:
        reference: An unbroken run that kept every epoch.
        unbroken: One of the same spec as the run.
        run: The run.
    """
    known, expected, actual = _reference(reference), epochs(Path(unbroken)), epochs(Path(run))
    if expected.keys() != actual.keys():
        return f"it keeps epochs {sorted(actual)}, not {sorted(expected)}"
    for number, path in actual.items():
        if blobs(path) != known.epochs[number]:
            return f"epoch {number} holds other values"
    if artifacts(Path(run)) != known.artifacts:
        return "the artifacts are other"
    if max(expected) not in acknowledged(Path(run)):
        return f"epoch {max(expected)} was never acknowledged"
    return ""


def main() -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        question, *words = json.loads(line)
        answer = lost(*words) if question == "lost" else unlike(*words)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
