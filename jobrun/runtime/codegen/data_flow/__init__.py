"""Follow values through the code of a block, to leave out copies that make no difference.

- ``flow_graph``: what may run after what, and which names are live there.
- ``copy_elision``: assignments that may bind a view, or move an array whose old name is dead;
  expressions in which a view with gaps gives the bits that its copy gives.
"""
