"""Resume on another number of nodes: map nodes, and redistribute rows and readers.

- ``resize``: the plan for all families of nodes, and the loading. ``row_plan``: the rows of one
  family. ``node_map``: ``--map``, nodes that share a process.
"""
