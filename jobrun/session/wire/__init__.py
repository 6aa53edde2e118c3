"""Exchange messages and values between the processes of a run.

- ``codec``: what messages may hold, errors among it, its bytes, and what carries them.
  ``rpc``: replies. ``peer_transfer``: node to node.
- ``worker_protocol``: what the process of a node must offer, and messages about files.
  ``worker_handle``: its owner in the master. ``launch``: such a process on this machine.
- ``partition_group``: which tasks of a group run on which node.
"""
