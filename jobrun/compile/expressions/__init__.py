"""Parse expressions and statements of a spec into frozen trees, without evaluating anything.

- ``parse``: the entry points. ``repeated_texts``: texts that differ in names only, parsed once.
- ``python_ast``: text to Python's own tree, with offsets, and placeholders in texts.
- ``translate``: Python's tree to ours. ``calls``: arguments of calls.
- ``refusals``, ``limits``: what may not be written, and how much.
"""
