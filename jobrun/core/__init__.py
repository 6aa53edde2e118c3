"""Provide what every layer uses: places, errors, events, files; no library but msgspec.

- ``errors``, ``codes``, ``error_catalogue/``: faults, and what each error code means, with the
  place in a file that a fault points at. ``text/``: faults, sizes, names, URLs.
- ``events``: what a run reports to its listeners. ``resource_usage``: memory, processor and disk
  use of a process. ``time_use``: where the time of a run went. ``captured_output``: what tasks
  and C code print, as lines of their logs.
- ``files/``: durable writes, locks, JSON, digests, what a process writes. ``file_formats``: names
  of data formats.
- ``partly_compared``: records of which some fields do not count when they are compared.
- ``interpreter``: the garbage collector, paused while much is made and nothing thrown away, memory
  for the calls of a thread, in one block, and modules that are imported at their first use.
- ``child_process``: start a child, write lines to it, limit its time, signal its group.
- ``system_calls``: what only some systems have, with substitutes. ``stop_signals``: the signals
  that ask a run to save and stop, and how a supervisor relays them. ``waiting``: until something
  is so, or a time limit is over. ``hash_seed``: ``PYTHONHASHSEED``. ``failpoints``: places at
  which a test kills the process.
"""
