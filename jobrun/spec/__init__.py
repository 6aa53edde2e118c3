"""Read a spec: YAML with positions, includes and parameters, validated models.

- ``load``: the way in. ``yaml/``: text to a tree with positions. ``resolve/``: include, merge,
  ``--set``, ``${…}``.
- ``models/``: the language as pydantic models. ``dump``, ``recorded_origins``: the resolved spec.
- ``format_text``: ``jobrun fmt``. ``key_order``: the usual order of a spec's keys.
"""
