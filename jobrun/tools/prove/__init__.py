"""Prove a job: kill it in many places, resume it, and compare it with unbroken runs.

- ``proof``: the whole. ``trials``: where to kill, and one copy, killed and resumed.
  ``judge``: what it has lost, or has different, and by which step.
  ``original_program``: a port's model. ``file_difference``: where two files differ.
- ``fork_server``: processes that start quickly.
"""
