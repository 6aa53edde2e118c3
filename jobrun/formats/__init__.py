"""Read and write data files: npy, npz, HDF5, csv, tsv, parquet.

- ``load_save``: whole members, by the ending of the name. ``npy``, ``hdf5``, ``csv``: one format
  each.
- ``headers``, ``csv_header``: what a file holds, without its data. ``errors``: what is refused.
- ``rows/``: records one after another, for readers.
"""
