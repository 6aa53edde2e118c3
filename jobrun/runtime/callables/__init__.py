"""Call Python code between blobs, and find out what it does to them.

A blob is a value: a step that does not list it in ``inout`` leaves it as it is, and two blobs share
nothing. A resume relies on both: it puts each blob together again by itself. Python code knows no
such rule. It may change an argument, keep a reference and change the value later, return a part of
an argument, or return one array as two blobs. In plain Python all of that has effects elsewhere; a
run that went on without them would compute something else, and a resumed run something else again.
So each call is watched, and what breaks the rule is refused, by the name of callable and blob:

- What may not be changed is lent as a read-only view, as a copy, or itself with its digest
  (``jobrun.values.change_detection``). ``array_audit`` compares samples of arrays, which code in C
  can write to though they are read-only.
- References are counted (``jobrun.runtime.snapshots.kept_references``, since a save compares them,
  too): of what code has kept, the blob gets a copy, and the two are compared from then on (E246).
- ``shared_memory`` looks for memory that two blobs have in common after a call, where a later step
  would change one of them in place (E258).
- ``call`` is the step, in the order of its phases. ``invocation`` calls the code: its arguments by
  name, what it prints, its exceptions. ``change_errors`` words what is refused.
  ``user_modules`` imports it.

Trees of small objects pass all of this at the speed of C, by a survey of their references
(``jobrun.values.tree_survey``).
"""
