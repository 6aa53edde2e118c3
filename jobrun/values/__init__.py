"""Define the values of blobs: their kinds, copies, comparison and sharing.

- ``blob_kinds``: which values there are. ``atomic_counter``: counters.
  ``container_flattening``, ``dataclasses_and_tuples``: trees of them.
- ``adapters``: trees of the values and objects of other libraries, and of a user's own.
- ``torch_tensors``, ``object_state``: values of other libraries. ``axis_order``: memory of arrays.
- ``copies``: copies that share no memory. ``compare``: whether and how two values differ.
  ``shared_parts``: memory, generators and objects that two values share.
- ``change_detection``: whether a callable changed a container or object that it was lent.
"""
