"""Render the spec language as a manual, from the JSON schema.

- ``keys``: the keys of the spec. ``markdown_pages``: the pages about topics.
- ``html_manual``: everything as one HTML page.
"""
