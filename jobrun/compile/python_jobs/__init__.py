"""Lower a job that was built in Python to a draft, and check what a parser would refuse.

- ``lower``: the entry point. ``step_paths``: paths of steps. ``validate``: names, words and
  numbers.
"""
