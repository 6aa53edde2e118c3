from __future__ import annotations

import numpy as np
import pytest

from jobrun.tools.runs.metrics import Metrics
from jobrun.tools.stored_run import MetricTable, build_column


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], np.array([1, 2], np.int64)),
        ([True, False], np.array([True, False])),
        ([0.5, 2], np.array([0.5, 2.0])),
        ([1, None], np.array([1.0, np.nan])),
        ([None, 1.5], np.array([np.nan, 1.5])),
        ([2**53 + 1, 0.5], np.array([2**53 + 1, 0.5], object)),
        ([2**53 + 1, None], np.array([2**53 + 1, None], object)),
        ([2**63, 1], np.array([2**63, 1], object)),
        ([True, 2], np.array([True, 2], object)),
        ([True, None], np.array([True, None], object)),
        (["a", None], np.array(["a", None], object)),
        ([], np.array([], np.float64)),
    ],
)
def test_a_column_has_a_type_that_loses_nothing(values, expected):
    found = build_column(values)

    np.testing.assert_array_equal(found, expected, strict=True)
    assert [type(one) for one in found] == [type(one) for one in expected]


def test_an_unknown_metric_is_named_with_the_nearest_one():
    table = MetricTable(Metrics(("loss",), ((1, (0.5,)),)))

    assert "los" not in table
    assert table.get("los") is None
    with pytest.raises(KeyError, match="no metric 'los': did you mean 'loss'"):
        table["los"]
