"""Every public function of numpy is an operator, or stands in the list with a reason."""

from __future__ import annotations

import numpy as np

from jobrun.ops.operator_table import OPERATORS
from jobrun.ops.unsupported_functions import LEFT_OUT


def _public():
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in module.__all__:
            object_ = getattr(module, name)
            if not callable(object_) or name.startswith("_"):
                continue
            if isinstance(object_, type) and (prefix or issubclass(object_, np.generic)):
                continue
            yield prefix + name


def _there():
    created = {
        operator.implementation.removeprefix("numpy").lstrip(":.").replace(":", ".")
        for operator in OPERATORS.values()
    }
    return {name for name in _public() if name in created or name in OPERATORS}


def test_nothing_of_numpy_is_forgotten():
    assert sorted(set(_public()) - _there() - set(LEFT_OUT)) == []


def test_nothing_is_there_and_left_out():
    assert sorted(_there() & set(LEFT_OUT)) == []


def test_what_is_left_out_is_numpys():
    # Numpy 2.5 has removed it.
    removed = set() if hasattr(np, "row_stack") else {"row_stack"}

    assert set(LEFT_OUT) - set(_public()) == removed


def test_what_an_issue_of_everyday_work_asks_for_is_there():
    wanted = (
        "add sum matmul solve cholesky svd eigh norm sort argsort searchsorted segment_sum "
        "bincount index_add add_at counter count_up zeros full astype reshape where select mean "
        "std median quantile cov corrcoef histogram percentile unique einsum"
    )
    assert set(wanted.split()) <= OPERATORS.keys()
