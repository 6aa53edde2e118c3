"""Read rows of data files in pieces, for readers: ``source`` opens, one module per format.

- ``source``: opens a file of any format; fields inside records. ``ragged``: rows that differ in
  length.
- ``arrays`` (npy, npz), ``hdf5``, ``csv``, ``parquet``: one module per format.
"""
