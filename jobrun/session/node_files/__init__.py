"""Collect checkpoint files that nodes wrote on their own machines, and serve them back.

- ``node_dir``: a node's directory. ``collect_files``: the master's side. ``file_chunks``: files as
  messages.
"""
