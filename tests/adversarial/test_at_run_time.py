"""What only a run can see to be too much fails at its step, with a clear error and no harm."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from tests.support.step_bench import Bench
from tests.support.tables import each_case

# More than the addresses that a process has, so that no machine tries.
HUGE = (
    "w = zeros(10 ** 15)",
    "w = ones((10 ** 6, 10 ** 6, 10 ** 6))",
    "w = full(10 ** 15, 1.5)",
    "w = eye(10 ** 8)",
    "w = arange(10 ** 15)",
    "w = linspace(0.0, 1.0, 10 ** 15)",
    "w = tile(x, 10 ** 15)",
    "w = repeat(x, 10 ** 15)",
    "w = resize(x, 10 ** 15)",
    "w = broadcast_to(x[:1], (10 ** 15,)) + 1",
    "w = pad(x, 10 ** 15)",
    "w = rng.normal(size=10 ** 15)",
    "w = rng.permutation(10 ** 15)",
    "w = bincount([0], minlength=10 ** 15)",
    "w = segment_sum(x, [0, 1, 2], 10 ** 15)[0]",
    "w = one_hot([0], 10 ** 15)",
    "w = identity(10 ** 8)",
    "w = tri(10 ** 7)",
    "w = zeros(n)",
)
TEXT = (
    "w = t % 1",
    "w = t % (1, 2)",
    "t %= 1",
    "w = (t + t) % 1",
    "w = (t if n > 1 else 'a') % 1",
)
POWERS = ("w = n ** n", "w = 2 ** n", "w = 1 << n", "n <<= n", "n **= n")


@each_case("step", [*HUGE, *TEXT, *POWERS])
def test_costly_step_fails_at_its_step(step):
    with Bench(x=_three(), n=10**15, t="%999999999d") as bench:
        with pytest.raises(TaskFailedError) as caught:
            bench.do(step)

        (fault,) = caught.value.faults
        assert fault.code.startswith("E2")
        assert fault.path
        assert fault.mend


@pytest.mark.parametrize("step", ["w = x % 2", "w = 7 % n", "w = -n % 5", "x %= 2", "n %= 5"])
def test_remainders_of_numbers_are_those_of_python(step):
    with Bench(x=_three(), n=7) as bench:
        blobs = bench.do(step)

        name = step.split()[0]
        names = {"x": _three(), "n": 7}
        exec(step, {}, names)  # the test's own texts
        assert blobs[name].tolist() == names[name].tolist() if name == "x" else True
        assert type(blobs[name]) is type(names[name])


def _three():
    return np.arange(3.0)
