"""Optimise generated code: fused elementwise chains, and reused buffers.

- ``fusion_candidates``: finds chains of operators. ``fused_kernel``: runs them piece by piece, in
  two threads if that is faster.
- ``buffer_reuse``: operators that write into their operand. ``alias_analysis``: which values may
  share memory.
"""
