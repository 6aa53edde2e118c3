"""Find operators by name, built in or of installed plug-in packages, and load their functions.

The tables of the built-in operators and of the methods of ``rng`` need no numpy; the function that
implements an operator is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.names import did_you_mean
from jobrun.ops.declarations.creation import CREATION
from jobrun.ops.declarations.draws import DRAW_METHODS
from jobrun.ops.declarations.elementwise import ELEMENTWISE
from jobrun.ops.declarations.linear import LINEAR
from jobrun.ops.declarations.reduction import REDUCTION
from jobrun.ops.declarations.searching import SEARCHING
from jobrun.ops.declarations.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.declarations.shaping import SHAPING
from jobrun.ops.declarations.signals import SIGNALS
from jobrun.ops.definition import DrawDef, OpDef

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def by_name(*families: Iterable[OpDef]) -> dict[str, OpDef]:
    """Build the operator table from lists of ``OpDef``; raise an error for two of one name.

    Raises:
        ValueError: Two have one name.
    """
    table: dict[str, OpDef] = {}
    for family in families:
        for operator in family:
            if operator.name in table:
                raise ValueError(f"two operators are named '{operator.name}'")
            table[operator.name] = operator
    return table


OPERATORS: Mapping[str, OpDef] = by_name(
    ELEMENTWISE, REDUCTION, CREATION, SHAPING, LINEAR, SIGNALS, SEARCHING, SEGMENTS_AND_SCATTER
)
DRAWS: Mapping[str, DrawDef] = {draw.name: draw for draw in DRAW_METHODS}

# The group of entry points by which packages plug in operators.
GROUP = "jobrun.operators"


def find_operator(name: str) -> OpDef | None:
    """Find an operator by name, built in or of an installed plug-in package; None if unknown.

    Raises:
        EnvironmentFaultError: E128, if packages clash or one cannot be loaded.
    """
    known = OPERATORS.get(name)
    return known if known is not None else _installed().get(name)


@cache
def implementation(name: str) -> Callable[..., Any]:
    """Look up an operator in the table by name, and import the function that computes it.

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
        message = f"the operator '{name}' cannot be loaded: {error}"
        mend = "install the package that it comes from, or its newer version"
        raise EnvironmentFaultError.of("E129", message, mend) from error
    return function


def installed_operators() -> dict[str, OpDef]:
    """Return a table of the operators of installed plug-ins, by name.

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


def load_operators(points: tuple[EntryPoint, ...]) -> dict[str, OpDef]:
    """Load the operators of plug-ins from entry points into a table by name.

    Raises:
        EnvironmentFaultError: E128, if two have one name, or one that is built in; if one
            cannot be imported, is no ``OpDef``, or changes its arguments.
    """
    operators: dict[str, OpDef] = {}
    for point in points:
        if point.name in OPERATORS or point.name in operators:
            raise _fault(point, "there is an operator of that name already")
        operators[point.name] = _loaded(point)
    return operators


@cache
def _modules() -> dict[str, str]:
    return {point.name: point.module for point in installed_points()}


@cache
def _installed() -> dict[str, OpDef]:
    return load_operators(installed_points())


def installed_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages that add operators to the table."""
    # It imports e-mail, archives and sockets, for a name that hardly any job has.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return tuple(entry_points(group=GROUP))


def _loaded(point: EntryPoint) -> OpDef:
    try:
        operator = point.load()
    except (ImportError, AttributeError) as error:
        raise _fault(point, f"it cannot be imported: {error}") from error
    if not isinstance(operator, OpDef) or operator.name != point.name:
        raise _fault(point, f"{point.value} is not an OpDef of that name")
    if operator.mutates:
        # Which arguments an operator writes is read from the built-in table alone.
        raise _fault(point, "an operator of a package cannot change its arguments in place")
    return operator


def _fault(point: EntryPoint, why: str) -> EnvironmentFaultError:
    package = point.dist.name if point.dist is not None else point.value
    message = f"the operator '{point.name}' of the package '{package}' cannot be used: {why}"
    mend = f"remove the package, or its entry point '{point.name}' of the group {GROUP}"
    return EnvironmentFaultError.of("E128", message, mend)
