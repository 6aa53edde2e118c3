"""Parse expressions and statements of a spec into frozen trees, without evaluating anything.

- ``parse``: the entry points. ``shapes``: texts that differ in names only, parsed once.
- ``python_syntax``: text to Python's own tree, with offsets.
- ``translate``, ``statements``: Python's tree to ours. ``calls``: arguments of calls.
- ``names``, ``reserved``, ``limits``, ``unsupported_syntax``, ``placeholders``: what may be
  written.
"""
