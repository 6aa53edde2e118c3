"""Exchange messages and values between the processes of a run.

- ``codec``, ``file_messages``: what messages may hold, and its bytes.
  ``serialized_errors``: errors in messages.
- ``socket_channel``, ``rpc``, ``peer_transfer``: how messages travel, replies, node to node.
- ``worker_protocol``: what the process of a node must offer. ``worker_handle``: its owner in
  the master. ``launch``: such a process on this machine.
- ``partition_group``: which tasks of a group run on which node.
"""
