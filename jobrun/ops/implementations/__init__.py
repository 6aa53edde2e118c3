"""Implement the operators that numpy lacks; each module is imported when one of its is called.

- ``segments``, ``scatter``, ``counters``: reductions by segment, changes in place, atomic changes.
- ``non_numpy_functions``: activations, casts, ``array``, ``pad``, ``one_hot``.
"""
