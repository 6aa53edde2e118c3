"""Hold the metrics of a run as numpy arrays, one per metric, aligned by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.names import did_you_mean
from jobrun.tools.run_api.notebook import render_metrics
from jobrun.tools.runs.metrics import Metrics, Number

Array = np.ndarray[Any, np.dtype[Any]]
_INT64 = np.iinfo(np.int64)
# Beyond, not each integer is a float.
_EXACT = 1 << 53


class MetricTable(Mapping[str, Array]):
    """The metrics of a run: an array by name, each with an item for each of ``epochs``.

    Numbers that were measured in every epoch keep their type: int64, float64 or bool. Where an
    epoch lacks a value, numbers become float64 with NaN. Texts, integers that neither of these
    can hold, and columns of mixed kinds are arrays of objects, with None where a value is missing.

    Args:
        metrics: As they were read.

    Attributes:
        epochs: int64, ascending.
        damaged: How many lines of ``metrics.jsonl`` could not be read, and are not here.

    >>> table = MetricTable(Metrics(("loss", "size"), ((1, (0.5, 3)), (2, (0.25, None)))))
    >>> table["loss"]
    array([0.5 , 0.25])
    >>> table["size"]
    array([ 3., nan])
    >>> table.epochs
    array([1, 2])
    """

    def __init__(self, metrics: Metrics) -> None:
        self.epochs: Array = np.array([epoch for epoch, _ in metrics.rows], np.int64)
        self.damaged = metrics.damaged
        self._columns = {
            name: build_column([values[at] for _, values in metrics.rows])
            for at, name in enumerate(metrics.names)
        }

    def __getitem__(self, name: str) -> Array:
        """Return the values of one metric.

        Raises:
            KeyError: There is no metric of that name.
        """
        if name not in self._columns:
            raise KeyError(f"no metric '{name}': {did_you_mean(str(name), self._columns)}")
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def to_pandas(self) -> Any:
        """Convert the metrics to a pandas DataFrame, indexed by epoch.

        Raises:
            EnvironmentFaultError: E432, pandas is not installed.
        """
        pandas = import_pandas()
        return pandas.DataFrame(self._columns, index=pandas.Index(self.epochs, name="epoch"))

    def __repr__(self) -> str:
        return f"<MetricTable: {len(self.epochs)} epochs of {', '.join(self) or 'nothing'}>"

    def _repr_html_(self) -> str:
        columns = {name: column.tolist() for name, column in self.items()}
        return render_metrics(self.epochs.tolist(), columns)


def build_column(values: Sequence[Number | None]) -> Array:
    """Build the array of one column from its values, None where there is none."""
    kinds = {type(value) for value in values if value is not None}
    is_whole = None not in values
    if is_whole and kinds == {bool}:
        return np.array(values, np.bool_)
    if is_whole and kinds == {int} and all(_INT64.min <= one <= _INT64.max for one in values):  # type: ignore[operator]
        return np.array(values, np.int64)
    if kinds <= {int, float} and not any(type(one) is int and abs(one) > _EXACT for one in values):
        return np.array([np.nan if one is None else one for one in values], np.float64)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def import_pandas() -> Any:
    """Import pandas.

    Raises:
        EnvironmentFaultError: E432, it is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E432", "a DataFrame needs the package 'pandas'", "install it: pip install pandas"
        ) from error
