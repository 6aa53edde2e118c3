"""Declare the built-in operators, family by family, without importing numpy.

- ``creation``, ``shaping``: arrays made and rearranged. ``elementwise``, ``reduction``,
  ``linear``, ``searching``: computing with them.
- ``segments_and_scatter``: segments, changes in place, counters. ``draws``: random numbers.
"""
