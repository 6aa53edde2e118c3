"""Declare the built-in operators with their rules for dtype and shape, without importing numpy.

- ``creation``, ``shaping``: arrays made and rearranged. ``elementwise``, ``reduction``,
  ``linear``, ``signals``, ``searching``: computing with them.
- ``segments_and_scatter``: segments, changes in place, counters. ``draws``: random numbers.
- ``index_functions``: rules of index grids and selections, for several families.
"""
