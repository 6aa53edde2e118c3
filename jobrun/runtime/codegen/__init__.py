"""Compile steps to Python functions through Python's own syntax tree.

- ``compiler``: the only module that compiles code. ``statements``, ``control_flow``,
  ``expressions``, ``record_statements``: the trees. ``ast_nodes``: single nodes.
  ``evaluate_outside_tasks``: conditions and metrics of a run.
- ``variables``, ``liveness``: which blobs live in local variables. ``data_flow/``: which copies
  are left out. ``coercion``: values on their way into blobs.
  ``bounded_arithmetic``: operators that refuse huge integers.
- ``step_meter``, ``meter_protocol``: the profiler's clock. ``line_table``,
  ``numpy_warnings``: from an instruction to its step.
- ``optimize/``: passes that save time and memory.
"""
