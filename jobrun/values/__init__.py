"""Define the values of blobs: their kinds, copies, comparison and sharing.

- ``blob_kinds``: which values there are. ``kinds``: what each of them is made of.
  ``traversal``: the kind of a class. ``traversal``: all that is in a value, in order.
- ``axis_order``: how arrays lie in memory. ``container_flattening``: trees of values.
- ``adapters``: trees of the values and objects of other libraries, and of a user's own.
- ``object_state``: states of objects. ``estimators``: objects as in scikit-learn.
- ``copies``: copies that share no memory. ``compare``: whether and how two values differ.
  ``shared_parts``: memory, generators and objects that two values share; ``overlapping_arrays``:
  arrays of one value. ``left_out_attributes``: what adapters leave out.
- ``structure_digest``: how a container is put together, as a digest.
- ``tree_survey``: the same questions about trees of small objects, answered at the speed of C.
- ``change_detection``: whether a callable changed a container or object that it was lent.
"""
