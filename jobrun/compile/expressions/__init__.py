"""Parse expressions and statements of a spec into frozen trees, without evaluating anything.

- ``parse``: the entry points, and text to Python's own tree. ``repeated_texts``: texts that differ
  in names only, parsed once.
- ``source_text``: places in a text, and its placeholders.
- ``translate``: Python's tree to ours. ``calls``: arguments of calls.
- ``refusals``, ``limits``: what may not be written, and how much.
"""
