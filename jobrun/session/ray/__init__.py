"""Run nodes as actors of a Ray cluster; everything else is as in ``processes``.

- ``session``: the master. ``actor``: an actor, seen from the master and from inside.
- ``placement``: resources of nodes. ``code_upload``: the user's modules.
"""
