"""Run each node in a process of its own, which the master controls by messages.

- ``session``: the master. ``worker``: a node's process, from inside.
- ``group_run``: one run of a group. ``remote_queue``: queues across nodes.
"""
