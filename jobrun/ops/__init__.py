"""Define the operators of expressions: signatures without numpy, and implementations.

- ``operator_table``: every operator by name, built in or of a plug-in package, and the function
  that implements it. ``declarations/``: the built-in ones, with dtypes and shapes of results.
- ``definition``: what declares an operator, with its signature. ``abstract_values``: what rules
  know of the values and arguments in a call. ``dtype_promotion``: dtypes of results.
  ``access_finder``: the blobs that steps read and change, as operators change some.
- ``numpy_implementations``: the functions that numpy lacks. ``unsupported_functions``: those of
  numpy that expressions lack.
"""
