"""Index every built-in operator and every method of ``rng`` by name, without numpy."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.ops.builtin_operators.creation import CREATION
from jobrun.ops.builtin_operators.draws import DRAW_METHODS
from jobrun.ops.builtin_operators.elementwise import ELEMENTWISE
from jobrun.ops.builtin_operators.linear import LINEAR
from jobrun.ops.builtin_operators.reduction import REDUCTION
from jobrun.ops.builtin_operators.searching import SEARCHING
from jobrun.ops.builtin_operators.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.builtin_operators.shaping import SHAPING
from jobrun.ops.definition import MANY, DrawDef, OpDef, by_name

__all__ = ["DRAWS", "MANY", "OPERATORS", "DrawDef", "OpDef"]

OPERATORS: Mapping[str, OpDef] = by_name(
    ELEMENTWISE, REDUCTION, CREATION, SHAPING, LINEAR, SEARCHING, SEGMENTS_AND_SCATTER
)
DRAWS: Mapping[str, DrawDef] = {draw.name: draw for draw in DRAW_METHODS}
