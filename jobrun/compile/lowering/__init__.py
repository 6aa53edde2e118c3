"""Lower the models of a spec to a draft: one module for each noun of the language.

- ``job``: the entry point, and the cluster. ``context``: the tables that lowering fills.
- ``groups``, ``steps``: the body of a job. ``nets``: named lists of steps, and their uses.
  ``repeated_steps``: lists that differ in names only, lowered once.
- ``readers``, ``queues``: data. ``checkpoint``, ``conditions``: what is saved, metrics, ends.
- ``expressions``: expressions and texts, where they are written.
"""
