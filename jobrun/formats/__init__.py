"""Read and write data files: npy, npz, HDF5, csv, tsv, parquet.

- ``load_save``: whole members, by the ending of the name. ``rows``: records one after another, for
  readers; ``ragged``: rows that differ in length.
- ``npy`` (and npz), ``hdf5``, ``csv``, ``parquet``: one format each. ``array_rows``: rows of
  arrays that lie in one piece, whatever the format.
- ``headers``: what a file holds, without its data; ``csv_header``: names of columns. ``errors``:
  what is refused.
"""
