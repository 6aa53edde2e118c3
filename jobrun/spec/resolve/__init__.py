"""Resolve a spec: include and merge files, apply ``--set`` and params, substitute ``${…}``.

- ``include``: several files to one tree. ``overrides``: ``--set``.
- ``params``: values. ``substitute``: references ``${…}``, also in a line for bash.
"""
