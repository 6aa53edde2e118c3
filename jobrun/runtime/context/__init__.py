"""Hold what a running step sees: workspaces, random streams, cancellation, queues.

- ``frame``, ``rng``: workspaces and random streams. ``group_run_state``: what the blocks of one run
  of a group share. ``safe_point``: a run between two records.
- ``library_settings``: what callables set in PyTorch, JAX, numpy and others;
  ``environment_variables``: what they set in ``os.environ``; ``context_variables``: in
  ``contextvars``.
- ``imported_code``: the source of the job's modules, compared when they are imported.
- ``cancel``, ``child_processes``: how work ends. ``bounded_queue``: records between threads.
"""
