"""Define the operators of expressions: signatures without numpy, and implementations.

- ``table``: every operator by name; ``families/``: their definitions; ``rules/``: dtypes and
  shapes of results.
- ``definition``, ``signatures``: what a definition consists of. ``arguments``,
  ``abstract_values``: what rules know of the values in a call.
- ``implementation``, ``plugins``: from a name to a function. ``counters``, ``segments``,
  ``scatter``, ``extra_functions``: what numpy does not have. ``not_supported``: what expressions
  lack.
"""
