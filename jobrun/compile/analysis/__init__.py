"""Analyse a draft: who reads, binds and deletes which names, and what follows for the job.

- ``scopes``: which workspace holds a name. ``state``: what is checkpointed, also directories of
  programs.
- ``outputs``: which task's output is read. ``missing_blobs``: why a blob is missing.
- ``queues``: what the tasks at the ends of queues agree on.
- ``reader_positions``: how far each reader was read, as state; the order of tasks that read it.
- ``conditions_and_metrics``: the nodes of what they read, and how a job ends.
- ``callable_aliasing``: blobs to which callables must not give the same memory.
"""
