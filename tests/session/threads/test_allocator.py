from __future__ import annotations

import subprocess
import sys

import pytest

from jobrun.session.threads.session import keep_freed_memory

# Arrays of half a MiB that are freed at once; each page that must be fetched again is a fault.
_FAULTS = """
import resource
import sys
import numpy as np
from jobrun.session.threads.session import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory({})
array = np.ones(1 << 16)
for turn in range(60):
    if turn == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    first = array + 1
    second = array * first
    del first, second
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(setting):
    process = subprocess.run(
        [sys.executable, "-c", _FAULTS, setting], capture_output=True, text=True, check=True
    )
    return int(process.stdout)


def test_memory_of_freed_arrays_is_not_fetched_again():
    assert _faults("keep") < 40


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_thresholds_set_by_the_user_are_kept(name):
    assert not keep_freed_memory({name: "131072"})
