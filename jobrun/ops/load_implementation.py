"""Load the function that implements an operator, imported at its first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.names import did_you_mean
from jobrun.ops.operator_table import OPERATORS
from jobrun.ops.plugins import find_operator


@cache
def implementation(name: str) -> Callable[..., Any]:
    """Import the function that implements an operator; the same object each time.

    Raises:
        KeyError: There is no operator of that name.
        EnvironmentFaultError: E129, if what it is made of cannot be imported.
    """
    operator = find_operator(name)
    if operator is None:
        raise KeyError(f"unknown operator '{name}': {did_you_mean(name, OPERATORS)}")
    module, _, attribute = operator.implementation.partition(":")
    try:
        function: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EnvironmentFaultError.of(
            "E129",
            f"the operator '{name}' cannot be loaded: {error}",
            "install the package that it comes from, or its newer version",
        ) from error
    return function
