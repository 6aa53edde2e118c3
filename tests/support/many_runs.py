"""Make a directory of very many runs, for tests of listing them; none ever ran."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import asdict

from jobrun.core.events import Measured
from jobrun.runner.rundir.logs import event_json
from jobrun.runner.rundir.run_directories import METRICS_NAME, random_name
from jobrun.runner.rundir.run_json import FORMAT, RECORD_NAME, RunRecord

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def make_runs(run_dir: Path, count: int, jobs: int = 10) -> None:
    """Make finished runs of some jobs in turn, a minute apart.

    Args:
        run_dir: Where.
        count: How many.
        jobs: Of how many jobs, called ``job0``, ``job1``, ….
    """
    for number in range(count):
        born = _FIRST + timedelta(minutes=number)
        job = f"job{number % jobs}"
        path = run_dir / job / f"{born:%Y%m%d-%H%M}-{random_name()}"
        path.mkdir(parents=True)
        record = RunRecord(
            run_id=f"{number:032x}",
            job=job,
            created=born.isoformat(timespec="microseconds"),
            status="finished",
            epoch=10,
            exit_code=0,
            reason="10 epochs have run",
            params={"rate": number / 1000, "depth": number % 7, "goal": 8},
            environment={"python": "3.11", "numpy": "2.0", "blas": "openblas " * 20},
        )
        content = {"format": FORMAT, **asdict(record)}
        (path / RECORD_NAME).write_text(json.dumps(content, indent=2))
        measured = (Measured("loss", 1 / (number + 1), 10), Measured("accuracy", 0.5, 10))
        (path / METRICS_NAME).write_text("".join(event_json(event) + "\n" for event in measured))
