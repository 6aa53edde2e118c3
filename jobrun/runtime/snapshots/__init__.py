"""Take snapshots of a node's state for a save while the next group runs; capture its objects.

- ``snapshot``: copy-on-write snapshots of blobs, and the files that they are written to.
- ``node_objects``: states of Python objects, taken and restored, and what the objects share.
- ``kept_references``: what callables keep, found by counting references.
"""
