"""Index every built-in operator and every method of ``rng`` by name, without numpy."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.ops.definition import MANY, DrawDef, OpDef, by_name
from jobrun.ops.families.accumulation import ACCUMULATION
from jobrun.ops.families.creation import CREATION
from jobrun.ops.families.draws import DRAW_METHODS
from jobrun.ops.families.elementwise import ELEMENTWISE
from jobrun.ops.families.linear import LINEAR
from jobrun.ops.families.reduction import REDUCTION
from jobrun.ops.families.searching import SEARCHING
from jobrun.ops.families.shaping import SHAPING

__all__ = ["DRAWS", "MANY", "OPERATORS", "DrawDef", "OpDef"]

OPERATORS: Mapping[str, OpDef] = by_name(
    ELEMENTWISE, REDUCTION, CREATION, SHAPING, LINEAR, SEARCHING, ACCUMULATION
)
DRAWS: Mapping[str, DrawDef] = {draw.name: draw for draw in DRAW_METHODS}
