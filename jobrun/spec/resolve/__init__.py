"""Resolve a spec: include and merge files, apply ``--set`` and params, substitute ``${…}``.

- ``include``: several files to one tree. ``overrides``: ``--set``.
- ``params``: values. ``substitute``: references ``${…}``; ``bash_quotes``: those in a bash line.
"""
