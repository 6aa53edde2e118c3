"""Options and results as values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from jobrun.runner.options import RunOptions, RunResult


def test_without_options_nothing_is_limited():
    options = RunOptions()

    assert options.run_dir == Path("runs")
    assert (options.epochs, options.max_epochs, options.time_s) == (0, 0, 0.0)
    assert options.epoch is None
    assert options.accept == ()


def test_options_and_results_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunOptions().epochs = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunResult(0, "/runs/j/x", 3, "").exit_code = 1
