"""Reorder the keys of a spec as text, for ``jobrun fmt``; comments and values stay.

- ``format_text``: moves the keys of a text, and checks that the meaning is kept.
- ``key_order``: the usual order. ``text_tree``: where each key is.
"""
