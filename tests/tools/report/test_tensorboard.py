"""Event files of TensorBoard, read back by TensorBoard itself."""

from __future__ import annotations

import math
import sys
import warnings

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.tools.report.tensorboard import export
from tests.support.reports import make_report


def _read(path):
    # Its modules warn of their own age.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
            EventAccumulator,
        )

        events = EventAccumulator(str(path.parent))
        events.Reload()
    return events


@pytest.mark.long
def test_tensorboard_reads_what_was_measured(tmp_path):
    report = make_report(tmp_path)
    (path,) = export([report], tmp_path / "tb")
    events = _read(path)

    assert sorted(events.Tags()["scalars"]) == [
        "halve.odd",
        "time/memory, MiB",
        "time/seconds per epoch",
        "time/seconds per save",
        "x",
    ]
    assert [(scalar.step, scalar.value) for scalar in events.Scalars("x")] == [
        (1, 4.0),
        (2, 2.0),
        (3, 1.0),
        (4, 0.5),
    ]
    assert math.isnan(events.Scalars("halve.odd")[1].value)
    times = {ended.epoch: ended.at for ended in report.history.epochs}
    assert events.Scalars("x")[2].wall_time == pytest.approx(times[3])


@pytest.mark.long
def test_an_export_that_is_made_again_replaces_the_first(tmp_path):
    report = make_report(tmp_path)
    first, second = (export([report], tmp_path / "tb")[0] for _ in range(2))

    assert first == second
    assert len(_read(second).Scalars("x")) == 4
    assert len(list(second.parent.iterdir())) == 1


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    for name in [module for module in sys.modules if module.startswith("tensorboardX")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)

    with pytest.raises(EnvironmentFaultError) as caught:
        export([make_report(tmp_path)], tmp_path / "tb")
    assert caught.value.faults[0].code == "E432"
    assert "jobrun[tensorboard]" in caught.value.faults[0].mend
