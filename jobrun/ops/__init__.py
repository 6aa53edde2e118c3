"""Define the operators of expressions: signatures without numpy, and implementations.

- ``table``: every operator by name; ``builtin_operators/``: their definitions; ``type_rules/``:
  dtypes and shapes of results.
- ``definition``, ``signatures``: what a definition consists of. ``arguments``,
  ``abstract_values``: what rules know of the values in a call. ``dtype_promotion``: dtypes of
  results.
- ``implementation``, ``plugins``: from a name to a function. ``counter_functions``, ``segments``,
  ``scatter``, ``extra_functions``: what numpy does not have. ``unsupported_functions``: what
  expressions lack.
"""
