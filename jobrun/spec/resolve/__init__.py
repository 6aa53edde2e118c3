"""Resolve a spec: include and merge files, apply ``--set`` and params, substitute ``${…}``.

- ``include``, ``merge``: several files to one tree. ``overrides``: ``--set``. ``params``: values.
- ``substitute``: references ``${…}``. ``shell_quoting``: the same within a line for bash.
"""
