"""Resolve a spec: include and merge files, apply ``--set`` and params, substitute ``${…}``.

- ``include``: several files to one tree. ``overrides``: ``--set``.
- ``params``: values. ``substitute``: references ``${…}``, quoted where they are in a bash line.
"""
