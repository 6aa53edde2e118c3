"""Render the spec language as a manual, from the JSON schema.

- ``keys``: the keys of the spec. ``page``: everything as one HTML page.
"""
