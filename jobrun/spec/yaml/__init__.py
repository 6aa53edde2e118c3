"""Parse YAML to a tree in which every key and value knows its place.

- ``spec_text``: a file as text. ``document``: text to a tree. ``parse``: the tree from parser
  events. ``repeated_items``: items that differ only in letters and digits, parsed once.
- ``nodes``: the tree, and paths in it as places. ``scalars``: what plain scalars mean.
- ``syntax_errors``: what the parser refuses, as faults.
"""
