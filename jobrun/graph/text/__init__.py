"""Render parts of a graph as text: steps, notes on options, queues, and a whole job.

- ``steps``: one line per step. ``notes``: options of a task, a node, a reader or a
  queue in a few words. ``job``: everything, for golden files.
"""
