"""Run all cases of a table in one test, and report each case that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def check_each(cases: Iterable[Any], check: Callable[[Any], object]) -> None:
    """Call ``check`` with each case, and raise with every case that failed.

    For large tables of cheap cases, where a test for each case costs more than the case itself.

    Raises:
        AssertionError: Cases failed; the message lists them, the cause is the first failure.
    """
    failures: list[str] = []
    first: BaseException | None = None
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - reported below
            label = getattr(case, "name", None) or repr(case)
            failures.append(f"{label}: {type(error).__name__}: {error}")
            first = first or error
    if failures:
        raise AssertionError(f"{len(failures)} cases fail:\n" + "\n".join(failures)) from first


def each_case(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """Decorate a test to run with each case of a table, as one test.

    The arguments are those of ``pytest.mark.parametrize``. Fixtures are made once for all cases,
    so a case may leave nothing behind that another one reads.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [_values(case, len(parameters)) for case in cases]

    def decorate(test: Callable[..., object]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            check_each(
                table,
                lambda values: test(**fixtures, **dict(zip(parameters, values, strict=True))),
            )

        signature = inspect.signature(test)
        fixtures_ = [
            parameter for name, parameter in signature.parameters.items() if name not in parameters
        ]
        run.__signature__ = signature.replace(parameters=fixtures_)  # type: ignore[attr-defined]
        return run

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if isinstance(case, ParameterSet):
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)
