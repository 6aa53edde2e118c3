"""Reorder the keys of a spec as text, for ``jobrun fmt``; comments and values stay.

- ``format_text``: the entry point, which also checks that the meaning is kept.
- ``key_order``: the usual order. ``text_tree``: where each key is. ``move_entries``: moves them.
"""
