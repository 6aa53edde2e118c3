"""Find the points of a sweep that were computed with other code, data or versions than now."""

from __future__ import annotations

import json
from typing import Any

from jobrun.runner.identity.drift import Change
from jobrun.runner.resume.finished import describe_outdated, list_result_changes
from jobrun.runner.rundir.run_directories import Run
from jobrun.runtime.context.imported_code import read_imported
from jobrun.tools.sweep.sweep_design import PlannedPoint, SweepBase

# Fields of a record that are compared besides its spec.
_COMPARED = ("callables", "packages", "data", "environment", "variables")


class PointComparer:
    """Compares finished points of a sweep with what is there now.

    Points of one spec that recorded the same are compared once: ten thousand points usually have
    one version of the code.

    Args:
        base: What all points have in common.
    """

    def __init__(self, base: SweepBase) -> None:
        self._base = base
        self._known: dict[str, tuple[Change, ...]] = {}

    def list_outdated(self, point: PlannedPoint, run: Run) -> tuple[str, ...]:
        """List what has changed since a point's run has finished, and what it was resumed with.

        Raises:
            JobrunError: What the run recorded cannot be read.
        """
        return describe_outdated(run, self._find(point, run))

    def _find(self, point: PlannedPoint, run: Run) -> tuple[Change, ...]:
        record = run.record
        if record.spec_digest != point.digest:
            return list_result_changes(run, self._base.load(point.overrides))
        compared: dict[str, Any] = {name: getattr(record, name) for name in _COMPARED}
        compared["imported"] = read_imported(run.path)
        key = json.dumps(compared, sort_keys=True, default=str)
        if key not in self._known:
            self._known[key] = list_result_changes(run, self._base.load(point.overrides))
        return self._known[key]
