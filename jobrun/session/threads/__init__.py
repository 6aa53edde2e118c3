"""Run all nodes in this process, and their tasks in threads; the simplest session.

- ``session``: the session, and what the C library does with the memory of freed arrays.
- ``work_items``: what is to run, each item as soon as those have ended that it awaits, also tasks
  of other processes. ``thread_pool``: the threads.
- ``retry_snapshots``: workspaces before a group run that may be retried.
"""
