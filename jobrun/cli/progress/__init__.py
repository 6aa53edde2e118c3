"""Show the progress of runs and sweeps: plain lines, a live display, or JSON lines.

- ``display``: which display a command gets. ``plain``, ``live``: the displays; ``screen`` redraws
  lines; ``run_state`` summarises events for them. ``summary``: what is printed at the end.
- ``sweep_display``, ``sweep_results``: the same for sweeps.
- ``profile_output``: ``--profile``.
"""
