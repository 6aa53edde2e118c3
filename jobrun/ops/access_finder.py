"""Find the blobs that steps read, bind and change, with what built-in operators change in place.

Apart from the table of operators: commands that only list them import no steps.
"""

from __future__ import annotations

from jobrun.graph.blob_access import AccessFinder
from jobrun.ops.operator_table import OPERATORS

ACCESS_FINDER = AccessFinder(
    {name: operator.mutates for name, operator in OPERATORS.items() if operator.mutates},
    {name for name, operator in OPERATORS.items() if operator.atomic},
)
