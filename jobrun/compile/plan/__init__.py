"""Describe a compiled job for ``jobrun plan``.

- ``document``: as JSON. ``text``: the main facts as text.
"""
