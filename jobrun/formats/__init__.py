"""Read and write data files: npy, npz, HDF5, csv, tsv, parquet.

- ``load_save``: whole members, by the ending of the name. ``rows``: records one after another, for
  readers; ``ragged``: rows that differ in length.
- ``npy`` (and npz), ``hdf5``, ``csv``, ``parquet``: one format each.
- ``headers``: what a file holds, without its data; ``npy_header``: dtype and shape of an npy array;
  ``csv_header``: names of columns. ``errors``: what is refused.
"""
