"""What an epoch with a save of a few small blobs calls: counted, for seconds hide what grows."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import jobrun
from jobrun.core.events import EpochEnded
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from tests.benchmarks.bench_epoch import SMALL, job

# A twentieth more than there are; before encoders of JSON were made once there were 1,500.
_MOST_CALLS = 1_170
_FIRST, _EPOCHS = 10, 20


def test_an_epoch_with_a_small_save_makes_few_calls(tmp_path: Path) -> None:
    calls = 0
    epoch = 0

    def count(frame: object, event: str, given: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"} and _FIRST <= epoch < _FIRST + _EPOCHS

    def note(event: object) -> None:
        nonlocal epoch
        if isinstance(event, EpochEnded):
            epoch = event.epoch

    policy = CheckpointPolicy(keep_last=3, every_epochs=1, asynchronous=False)
    stop = (jobrun.StopAfterEpochs(_FIRST + _EPOCHS + 1),)
    made = replace(job(SMALL), checkpoint=policy, stop=stop)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        jobrun.run(made, jobrun.RunOptions(run_dir=tmp_path), resume="never", listener=note)
    finally:
        sys.setprofile(before)

    assert calls / _EPOCHS < _MOST_CALLS
