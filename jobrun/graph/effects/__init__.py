"""Steps that hold no other steps; a simple kind is declared, in one module, down to its effect.

- ``effect``: what generic code asks of each such step, and how a kind declares its keys.
- ``log``, ``metric``, ``assertion``, ``sleep``: one kind each. ``table``: the list of these kinds,
  from which the spec's models, the lowering and the functions that run are made.
"""
