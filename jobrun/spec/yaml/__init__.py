"""Parse YAML to a tree in which every key and value knows its position.

- ``spec_text``: a file as text. ``parse``: text to a tree. ``pyyaml``: the parser and its events.
  ``tree_builder``: the tree from the events. ``repeated_items``: items that differ only in letters
  and digits, parsed once.
- ``nodes``: the tree, and paths in it as positions. ``scalars``: what plain scalars mean.
- ``syntax_errors``: what the parser refuses, as faults.
"""
