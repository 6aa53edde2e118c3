"""Reorder the keys of a spec as text, for ``jobrun fmt``; comments and values stay.

- ``format_text``: formats a text, and checks that its meaning and its comments are kept.
- ``move_entries``: moves the entries of mappings. ``key_order``: the usual order.
- ``text_tree``: where each key is.
"""
