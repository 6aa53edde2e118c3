"""Exchange messages and values between the processes of a run.

- ``codec``: what messages may hold, errors among it, its bytes, and what carries them.
  ``rpc``: replies. ``peer_transfer``: blobs, node to node. ``file_messages``: about files.
- ``worker_handle``: the process of a node, as the master launches and controls it, and what such a
  process must offer.
- ``partition_group``: which tasks of a group run on which node.
"""
