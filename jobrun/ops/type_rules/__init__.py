"""Infer dtype and shape of operators' results, family by family, without numpy.

- ``creation``, ``shaping``, ``elementwise``, ``reduction``, ``linear``, ``searching``,
  ``segments_and_scatter``, ``draws``: the rules of the family of that name.
- ``transforms``: Fourier transforms, polynomials and decompositions, mostly for ``linear``.
- ``index_functions``: index grids and selections, for several families.
"""
