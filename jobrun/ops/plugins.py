"""Operators of other installed packages, looked for only when a name is not built in."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from jobrun.core.errors import EnvironmentFaultError
from jobrun.ops.table import OPERATORS, OpDef

GROUP = "jobrun.operators"


def find_operator(name: str) -> OpDef | None:
    """The operator of a name, built in or of an installed package; None when there is none.

    Raises:
        EnvironmentFaultError: E128, if packages clash or one cannot be loaded.
    """
    known = OPERATORS.get(name)
    return known if known is not None else _installed().get(name)


@cache
def _installed() -> dict[str, OpDef]:
    return load_operators(tuple(entry_points(group=GROUP)))


def load_operators(points: tuple[EntryPoint, ...]) -> dict[str, OpDef]:
    """The operators that entry points name, each an ``OpDef`` under its own name.

    Raises:
        EnvironmentFaultError: E128, if two have one name, or one that is built in; if one
            cannot be imported, is no ``OpDef``, or changes its arguments.
    """
    found: dict[str, OpDef] = {}
    for point in points:
        if point.name in OPERATORS or point.name in found:
            raise _fault(point, "there is an operator of that name already")
        found[point.name] = _loaded(point)
    return found


def _loaded(point: EntryPoint) -> OpDef:
    try:
        operator = point.load()
    except (ImportError, AttributeError) as error:
        raise _fault(point, f"it cannot be imported: {error}") from error
    if not isinstance(operator, OpDef) or operator.name != point.name:
        raise _fault(point, f"{point.value} is not an OpDef of that name")
    if operator.mutates:
        # Who writes what is decided from the built-in table alone.
        raise _fault(point, "an operator of a package cannot change its arguments in place")
    return operator


def _fault(point: EntryPoint, why: str) -> EnvironmentFaultError:
    package = point.dist.name if point.dist is not None else point.value
    return EnvironmentFaultError.of(
        "E128",
        f"the operator '{point.name}' of the package '{package}' cannot be used: {why}",
        f"remove the package, or its entry point '{point.name}' of the group {GROUP}",
    )
