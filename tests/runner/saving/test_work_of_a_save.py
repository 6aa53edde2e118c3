"""What an epoch with a save of a few small blobs calls: counted, for seconds hide what grows."""

from __future__ import annotations

import subprocess
import sys
import tempfile

from msgspec.structs import replace

import jobrun
from jobrun.core.events import EpochEnded
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from tests.benchmarks.bench_epoch import SMALL, job
from tests.support.command import ROOT

# A twentieth more than there are; before encoders of JSON were made once there were 1,500.
_MOST_CALLS = 1_170
_FIRST, _EPOCHS = 10, 20


def count_calls() -> float:
    """Count the calls of an epoch of a job that saves a few small blobs after each."""
    calls = 0
    epoch = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"} and _FIRST <= epoch < _FIRST + _EPOCHS

    def note(event: object) -> None:
        nonlocal epoch
        if isinstance(event, EpochEnded):
            epoch = event.epoch

    policy = CheckpointPolicy(keep_last=3, every_epochs=1, asynchronous=False)
    stop = (jobrun.StopAfterEpochs(_FIRST + _EPOCHS + 1),)
    compiled = replace(job(SMALL), checkpoint=policy, stop=stop)
    with tempfile.TemporaryDirectory() as run_dir:
        sys.setprofile(count)
        try:
            jobrun.run(compiled, jobrun.RunOptions(run_dir=run_dir), resume="never", listener=note)
        finally:
            sys.setprofile(None)
    return calls / _EPOCHS


def test_an_epoch_with_a_small_save_makes_few_calls() -> None:
    # In a process of its own: the settings of libraries that other tests have imported are saved
    # too, which takes calls.
    done = subprocess.run(
        [sys.executable, "-m", __name__], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert 0 < float(done.stdout) < _MOST_CALLS


if __name__ == "__main__":
    print(count_calls())
