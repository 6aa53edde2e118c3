"""Store the files of epochs: in a directory, in an object store, or in memory.

- ``directory``, ``object_store``, ``memory``: the three stores.
- ``manifest``: the record that commits an epoch, and files that differ from it;
  ``mid_epoch_store``: checkpoints within an epoch.
- ``retention``: which epochs to delete; ``read_locks``: which must not be deleted now.
- ``bucket``, ``object_references``: objects by name, and files that refer to them.
- ``epoch_copy``: copy an epoch to another directory.
"""
