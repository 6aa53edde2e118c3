"""Show the progress of runs and sweeps: plain lines, a live display, or JSON lines.

- ``lines``: plain and JSON lines. ``live``: the display that redraws itself.
  ``run_state`` summarises events for them. ``summary``: what is printed at the end.
- ``sweep_output``: the same for sweeps.
- ``profile_output``: ``--profile``.
"""
