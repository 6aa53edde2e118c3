"""Find operators that other installed packages define by entry points."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jobrun.core.errors import EnvironmentFaultError
from jobrun.ops.operator_table import OPERATORS, OpDef

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "jobrun.operators"


def find_operator(name: str) -> OpDef | None:
    """Find an operator by name, built in or of an installed plug-in package; None if unknown.

    Raises:
        EnvironmentFaultError: E128, if packages clash or one cannot be loaded.
    """
    known = OPERATORS.get(name)
    return known if known is not None else _installed().get(name)


def installed_operators() -> dict[str, OpDef]:
    """Return the operators of installed plug-ins by name.

    Raises:
        EnvironmentFaultError: E128, if packages clash or one cannot be loaded.
    """
    return dict(_installed())


def has_loaded() -> bool:
    """Return whether this process has looked for operators of installed plug-ins."""
    return _installed.cache_info().currsize > 0


def module_of(name: str) -> str:
    """Return the module of the plug-in that defines an operator; empty for a built-in one."""
    return "" if name in OPERATORS or name not in _installed() else _modules().get(name, "")


@cache
def _modules() -> dict[str, str]:
    return {point.name: point.module for point in installed_points()}


@cache
def _installed() -> dict[str, OpDef]:
    return load_operators(installed_points())


def installed_points() -> tuple[EntryPoint, ...]:
    """Return the entry points by which installed packages plug in operators."""
    # It imports e-mail, archives and sockets, for a name that hardly any job has.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return tuple(entry_points(group=GROUP))


def load_operators(points: tuple[EntryPoint, ...]) -> dict[str, OpDef]:
    """Load the operators that plug-ins define by entry points, and return them by name.

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
