"""Define the operators of expressions: signatures without numpy, and implementations.

- ``operator_table``: every operator by name; ``builtin_operators/``: their definitions;
  ``type_rules/``: dtypes and shapes of results.
- ``definition``: what declares an operator, with its signature. ``abstract_values``: what rules
  know of the values and arguments in a call. ``dtype_promotion``: dtypes of
  results.
- ``load_implementation``, ``plugins``: from a name to a function. ``implementations/``: what
  numpy does not have. ``unsupported_functions``: what expressions lack.
"""
