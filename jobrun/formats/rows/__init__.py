"""Read rows of data files in pieces, for readers: ``open_rows`` opens, one module per format.

- ``open_rows``: opens a file of any format. ``rows_protocol``: what it returns.
- ``structured``: fields inside records. ``ragged``: rows that differ in length.
- ``arrays`` (npy, npz), ``hdf5``, ``csv``, ``parquet``: one module per format.
"""
