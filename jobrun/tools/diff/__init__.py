"""Compare two values, two checkpoints, or two runs, and describe the difference.

- ``value_diff``, ``checkpoint_diff``, ``run_diff``: one of these each.
"""
