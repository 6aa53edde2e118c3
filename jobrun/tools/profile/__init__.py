"""Measure where the time of a run goes: tables, and a trace for Perfetto.

- ``profiler``: one invocation. ``table``: rows by step, operator, instance and node.
  ``trace``: the trace.
"""
