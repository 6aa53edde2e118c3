"""Compare two values, two checkpoints, or two runs, and describe the difference.

- ``checkpoint_diff``: values and checkpoints. ``run_diff``: runs.
"""
