"""Compile steps to Python functions through Python's own syntax tree.

- ``compiler``: the only module that compiles code. ``statements``, ``control_flow``,
  ``expressions``, ``record_statements``: the trees.
- ``liveness``: which blobs live in local variables. ``coercion``: what generated code calls to
  check and convert values.
- ``copy_elision``: which copies are left out, as they make no difference; ``flow_graph``: what may
  run after what. ``alias_analysis``: which values may share memory.
- ``elementwise_chains``: chains of operators that are fused, or write into their operand.
  ``fused_kernel``: runs fused ones piece by piece, in two threads if that is faster.
- ``step_meter``, ``meter_protocol``: the profiler's clock. ``line_table``: from an instruction to
  its step.
"""
