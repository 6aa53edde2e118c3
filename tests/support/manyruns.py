"""A directory of very many runs, as measurements and tests of listing them need. None ever ran."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from jobrun.runner.record import FORMAT, RECORD_NAME, RunRecord
from jobrun.runner.words import two_words

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def make_runs(run_dir: Path, count: int, jobs: int = 10) -> None:
    """Make finished runs, a minute apart, of some jobs in turn: only what tells them apart.

    Args:
        run_dir: Where.
        count: How many.
        jobs: Of how many jobs, called ``job0``, ``job1``, ….
    """
    for number in range(count):
        born = _FIRST + timedelta(minutes=number)
        job = f"job{number % jobs}"
        path = run_dir / job / f"{born:%Y%m%d-%H%M}-{two_words()}"
        path.mkdir(parents=True)
        record = RunRecord(
            run_id=f"{number:032x}", job=job, created=born.isoformat(timespec="microseconds"),
            status="finished", epoch=10, exit_code=0, reason="10 epochs have run",
            environment={"python": "3.11", "numpy": "2.0", "blas": "openblas " * 20},
        )  # fmt: skip
        content = {"format": FORMAT, **asdict(record)}
        (path / RECORD_NAME).write_text(json.dumps(content, indent=2))
