"""Run task groups: in threads, in processes, or on a Ray cluster.

- ``base``: the protocol, a session by its name, and how a group run fails.
- ``threads/``: threads of this process. ``processes/``: a process for each node, and what Ray
  shares with that. ``ray/``: Ray. ``wire/``: messages between processes.
- ``node_files``: checkpoint files that nodes write on their own machines.
"""
