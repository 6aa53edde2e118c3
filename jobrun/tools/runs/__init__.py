"""List runs and read their status, metrics and tags from their files alone.

- ``summarise_runs``: all runs with their params and last metrics. ``arrange_runs``: filter, sort,
  group them.
- ``manage_runs``: list, tag and remove runs. ``status``: one run's status. ``metrics``: its
  metrics.
- ``task_logs``: what its tasks have written. ``recorded_usage``: where its time went, memory,
  processor, disk.
- ``stop_signal``: ask a live run to end.
"""
