"""List runs and read their status, metrics and tags from their files alone.

- ``summarise_runs``: all runs with their params and last metrics. ``filter_and_sort_runs``: which
  of them are shown, and in what order. ``tag_and_remove_runs``: tags, sizes, removal.
- ``status``: one run's status. ``metrics``: its metrics.
- ``task_logs``: what its tasks have written. ``recorded_usage``: where its time went, memory,
  processor, disk.
- ``stop_signal``: ask a live run to end.
"""
